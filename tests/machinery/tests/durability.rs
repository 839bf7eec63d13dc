//! Durability of the embedded store: across closing, across a kill, within its bounds.

// Clippy takes the functions that tests are made of for production code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "contract/fixture.rs"]
#[allow(dead_code)]
mod fixture;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use fixture::{Tested, all, commit, delete, in_folder, put, revision, shown, stories, take, watch_error};
use machinery_storage::{EmbeddedOptions, EmbeddedStore, Range, StoreError, WatchEvent};

async fn open(options: EmbeddedOptions) -> Tested {
    Arc::new(EmbeddedStore::open(options).await.unwrap())
}

#[tokio::test]
async fn what_was_committed_is_there_after_closing_with_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let store = in_folder(folder.path()).await;
    let start = commit(&store, [put("/a/x", "1"), put("/a/y", "1")]).await;
    let last = commit(&store, [put("/a/x", "2"), delete("/a/y")]).await;
    drop(store);
    let store = in_folder(folder.path()).await;
    let page = store.list(&all("/a/")).await.unwrap();
    assert_eq!((shown(&page.items), page.revision), (vec!["/a/x=2".to_owned()], last));
    let then = store.list(&Range { at_revision: Some(start), ..all("/a/") }).await.unwrap();
    assert_eq!(shown(&then.items), ["/a/x=1", "/a/y=1"]);
    let mut watch = store.watch("/a/", start).await.unwrap();
    assert_eq!(commit(&store, [put("/a/z", "1")]).await, last + 1);
    let expected = ["/a/x: 1 -> 2", "/a/y: 1 -> nothing", "/a/z: nothing -> 1"];
    assert_eq!(stories(&take(&mut watch, 3).await), expected);
}

const CHILD: &str = "the_child_that_commits_until_it_is_killed";

#[tokio::test]
#[ignore = "it is a part of the test below, in a process of its own"]
async fn the_child_that_commits_until_it_is_killed() {
    let folder = std::env::var("STORE_FOLDER").unwrap();
    let store = in_folder(Path::new(&folder)).await;
    let writers = (0..4).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for number in 0.. {
                let value = number.to_string();
                let operations = [put(&format!("/a/{writer}"), &value), put(&format!("/b/{writer}"), &value)];
                commit(&store, operations).await;
                println!("committed {writer} {number}");
            }
        })
    });
    futures::future::join_all(writers).await;
}

#[tokio::test]
async fn a_commit_that_was_reported_survives_a_kill_and_none_is_torn() {
    let folder = tempfile::tempdir().unwrap();
    let mut reported = [None::<i64>; 4];
    for round in 0..3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", CHILD, "--ignored", "--nocapture"])
            .env("STORE_FOLDER", folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut commits = 0;
        reported = [None; 4];
        for line in lines {
            let line = line.unwrap();
            let Some((_, what)) = line.split_once("committed ") else {
                continue;
            };
            let (writer, number) = what.split_once(' ').unwrap();
            reported[writer.parse::<usize>().unwrap()] = Some(number.parse().unwrap());
            commits += 1;
            if commits == 200 + round * 37 {
                // SIGKILL, in the middle of the next commits. What it printed until then is still read.
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(commits >= 200, "the child made only {commits} commits");
        let store = in_folder(folder.path()).await;
        let a = store.list(&all("/a/")).await.unwrap();
        let b = store.list(&all("/b/")).await.unwrap();
        assert_eq!(a.items.len(), 4);
        for ((a, b), reported) in a.items.iter().zip(&b.items).zip(reported) {
            assert_eq!((&a.value, a.mod_revision), (&b.value, b.mod_revision), "a commit is whole");
            let kept: i64 = String::from_utf8_lossy(&a.value).parse().unwrap();
            assert!(reported.is_none_or(|reported| kept >= reported), "{} lost {reported:?}: {kept}", a.key);
        }
        // The history goes on from there, without a gap.
        let now = revision(&store).await;
        let mut watch = store.watch("/", now - 10).await.unwrap();
        let revisions: Vec<_> = take(&mut watch, 20).await.iter().map(WatchEvent::revision).collect();
        let expected: Vec<_> = (now - 9..=now).flat_map(|revision| [revision, revision]).collect();
        assert_eq!(revisions, expected);
        assert_eq!(commit(&store, [put("/c", "1")]).await, now + 1);
    }
    assert!(reported.iter().any(Option::is_some));
}

#[tokio::test]
async fn the_history_is_bounded_by_number_in_whole_commits() {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { history_events: 10, ..EmbeddedOptions::new(folder.path().join("store")) };
    let store = open(options).await;
    let first = commit(&store, [put("/a/x", "0")]).await;
    for number in 0..20 {
        let value = number.to_string();
        commit(&store, [put("/a/x", &value), put("/a/y", &value), put("/a/z", &value)]).await;
    }
    let now = revision(&store).await;
    let error = watch_error(&store, "/a/", first).await;
    let StoreError::Compacted { oldest, .. } = error else { panic!("{error:?}") };
    // Nine changes are three commits; a tenth is not kept without the others of its commit.
    assert_eq!(oldest, now - 3);
    let mut watch = store.watch("/a/", oldest).await.unwrap();
    assert_eq!(take(&mut watch, 9).await.last().unwrap().revision(), now);
    let then = store.list(&Range { at_revision: Some(oldest), ..all("/a/") }).await.unwrap();
    assert_eq!(shown(&then.items), ["/a/x=16", "/a/y=16", "/a/z=16"]);
}

#[tokio::test]
async fn the_history_is_bounded_by_age() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open(EmbeddedOptions::new(&path)).await;
    let first = commit(&store, [put("/a/x", "1")]).await;
    commit(&store, [put("/a/x", "2")]).await;
    assert!(store.watch("/a/", first).await.is_ok());
    drop(store);
    // What is committed in this millisecond is not yet older than nothing: the deadline is real time.
    let store =
        open(EmbeddedOptions { history_age: Duration::from_millis(1), ..EmbeddedOptions::new(&path) }).await;
    controlplane::eventually(Duration::from_secs(5), "the history is trimmed", || async {
        commit(&store, [put("/a/y", "1")]).await;
        if store.watch("/a/", first).await.is_err() { Ok(()) } else { Err("the first revision is left") }
    })
    .await
    .unwrap();
    assert_eq!(shown(&store.list(&all("/a/")).await.unwrap().items), ["/a/x=2", "/a/y=1"]);
}

#[tokio::test]
async fn a_file_is_open_once_and_must_be_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = in_folder(folder.path()).await;
    let path = folder.path().join("store");
    let again = EmbeddedStore::open(EmbeddedOptions::new(&path)).await;
    assert!(matches!(again, Err(StoreError::Unavailable { action: "open", .. })));
    drop(store);
    assert!(EmbeddedStore::open(EmbeddedOptions::new(&path)).await.is_ok());
    let other = folder.path().join("other");
    std::fs::write(&other, "something else, and long enough to be looked at".repeat(100)).unwrap();
    for path in [other, folder.path().join("missing/store")] {
        let result = EmbeddedStore::open(EmbeddedOptions::new(path)).await;
        assert!(matches!(result, Err(StoreError::Unavailable { action: "open", .. })));
    }
}

#[tokio::test]
async fn a_watch_ends_with_an_error_when_the_store_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let store = in_folder(folder.path()).await;
    let mut watch = store.watch("/a/", revision(&store).await).await.unwrap();
    commit(&store, [put("/a/x", "1")]).await;
    drop(store);
    assert_eq!(stories(&take(&mut watch, 1).await), ["/a/x: nothing -> 1"]);
    let end = fixture::next_of(&mut watch).await.unwrap_err();
    assert!(matches!(end, StoreError::Unavailable { .. }), "{end:?}");
}
