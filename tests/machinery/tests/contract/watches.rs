//! Watches.

use bytes::Bytes;
use machinery_storage::{Operation, WatchEvent};

use crate::fixture::{Tested, commit, commit_if, delete, next_of, put, revision, stories, take, unchanged};

pub(crate) async fn a_watch_reports_each_commit_once_in_order_with_the_previous_value(store: Tested) {
    let mut watch = store.watch("/a/", revision(&store).await).await.unwrap();
    let created = commit(&store, [put("/a/x", "1")]).await;
    let changed = commit(&store, [put("/a/x", "2")]).await;
    commit_if(&store, [unchanged("/a/x", created)], [put("/a/x", "never")]).await;
    commit(&store, [delete("/a/y")]).await;
    let deleted = commit(&store, [delete("/a/x")]).await;
    let anew = commit(&store, [put("/a/x", "3")]).await;
    let events = take(&mut watch, 4).await;
    let expected = ["/a/x: nothing -> 1", "/a/x: 1 -> 2", "/a/x: 2 -> nothing", "/a/x: nothing -> 3"];
    assert_eq!(stories(&events), expected);
    let revisions: Vec<_> = events.iter().map(WatchEvent::revision).collect();
    assert_eq!(revisions, [created, changed, deleted, anew]);
    let WatchEvent::Put { current, previous: Some(previous) } = &events[1] else { panic!("{:?}", events[1]) };
    assert_eq!((current.create_revision, current.mod_revision), (created, changed));
    assert_eq!((previous.create_revision, previous.mod_revision), (created, created));
    let WatchEvent::Delete { previous, .. } = &events[2] else { panic!("{:?}", events[2]) };
    assert_eq!((previous.create_revision, previous.mod_revision), (created, changed));
}

pub(crate) async fn a_watch_from_the_past_reports_what_it_missed_and_goes_on(store: Tested) {
    let start = commit(&store, [put("/a/x", "0")]).await;
    for number in 1..=5 {
        commit(&store, [put("/a/x", &number.to_string())]).await;
    }
    let mut watch = store.watch("/a/", start).await.unwrap();
    commit(&store, [put("/a/x", "6")]).await;
    let expected: Vec<_> = (0..6).map(|number| format!("/a/x: {number} -> {}", number + 1)).collect();
    assert_eq!(stories(&take(&mut watch, 6).await), expected);
    commit(&store, [delete("/a/x")]).await;
    assert_eq!(stories(&take(&mut watch, 1).await), ["/a/x: 6 -> nothing"]);
}

pub(crate) async fn the_operations_of_a_commit_come_together(store: Tested) {
    let start = revision(&store).await;
    let mut live = store.watch("/a/", start).await.unwrap();
    let writers = (0..4).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for round in 0..50 {
                // Seven, so that commits do not end where a store's own batches do.
                let operations: Vec<Operation> = (0..7)
                    .map(|part| put(&format!("/a/{writer}/{part}"), &format!("{writer}-{round}")))
                    .collect();
                commit(&store, operations).await;
            }
        })
    });
    for writer in futures::future::join_all(writers).await {
        writer.unwrap();
    }
    let mut past = store.watch("/a/", start).await.unwrap();
    for watch in [&mut live, &mut past] {
        let events = take(watch, 4 * 50 * 7).await;
        let mut last = start;
        for commit in events.chunks(7) {
            let revision = commit[0].revision();
            assert!(revision > last, "revisions rise");
            last = revision;
            assert!(commit.iter().all(|event| event.revision() == revision), "{commit:?}");
        }
    }
}

pub(crate) async fn a_watch_sees_its_prefix_only(store: Tested) {
    let start = revision(&store).await;
    let mut watch = store.watch("/a/", start).await.unwrap();
    commit(&store, [put("/b/x", "1"), put("/a/x", "1"), put("/a0", "1"), put("/a.b", "1")]).await;
    commit(&store, [put("/b/x", "2")]).await;
    commit(&store, [put("/a/y", "1")]).await;
    assert_eq!(stories(&take(&mut watch, 2).await), ["/a/x: nothing -> 1", "/a/y: nothing -> 1"]);
    let mut past = store.watch("/a/", start).await.unwrap();
    assert_eq!(stories(&take(&mut past, 2).await), ["/a/x: nothing -> 1", "/a/y: nothing -> 1"]);
}

pub(crate) async fn many_watches_see_the_same(store: Tested) {
    let start = revision(&store).await;
    let readers: Vec<_> = (0..40)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut watch = store.watch("/a/", start).await.unwrap();
                stories(&take(&mut watch, 100).await)
            })
        })
        .collect();
    for number in 0..100 {
        commit(&store, [put(&format!("/a/{number}"), "1")]).await;
    }
    let expected: Vec<_> = (0..100).map(|number| format!("/a/{number}: nothing -> 1")).collect();
    for seen in futures::future::join_all(readers).await {
        assert_eq!(seen.unwrap(), expected);
    }
}

pub(crate) async fn a_reader_that_lags_loses_nothing(store: Tested) {
    let start = revision(&store).await;
    let mut watch = store.watch("/a/", start).await.unwrap();
    let writers = (0..20).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for number in 0..150 {
                commit(&store, [put(&format!("/a/{writer}"), &number.to_string())]).await;
            }
        })
    });
    for writer in futures::future::join_all(writers).await {
        writer.unwrap();
    }
    let events = take(&mut watch, 3_000).await;
    let revisions: Vec<_> = events.iter().map(WatchEvent::revision).collect();
    let expected: Vec<_> = (start + 1..=start + 3_000).collect();
    assert_eq!(revisions, expected);
    for event in &events {
        let WatchEvent::Put { current, previous } = event else { panic!("{event:?}") };
        let number = |value: &Bytes| String::from_utf8_lossy(value).parse::<i32>().unwrap();
        let before = previous.as_ref().map_or(-1, |previous| number(&previous.value));
        assert_eq!(number(&current.value), before + 1);
    }
}

pub(crate) async fn a_broken_off_watch_is_resumed_without_loss(store: Tested) {
    let mut at = revision(&store).await;
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for number in 0..500 {
                commit(&store, [put("/a/x", &number.to_string())]).await;
            }
        }
    });
    let mut seen = Vec::new();
    while seen.len() < 500 {
        let mut watch = store.watch("/a/", at).await.unwrap();
        let wanted = (500 - seen.len()).min(7);
        let events = take(&mut watch, wanted).await;
        at = events.last().unwrap().revision();
        seen.extend(stories(&events));
    }
    writer.await.unwrap();
    assert_eq!(seen.first().unwrap(), "/a/x: nothing -> 0");
    let expected: Vec<_> = (1..500).map(|number| format!("/a/x: {} -> {number}", number - 1)).collect();
    assert_eq!(seen[1..], expected[..]);
}

pub(crate) async fn progress_tells_that_everything_was_seen(store: Tested) {
    let start = revision(&store).await;
    let mut watch = store.watch("/a/", start).await.unwrap();
    // Nothing has happened: progress says so.
    store.request_progress().await.unwrap();
    let event = next_of(&mut watch).await.unwrap();
    assert_eq!(event, WatchEvent::Progress(start));
    // What happened elsewhere moves it on, and what happened here comes before it.
    commit(&store, [put("/a/x", "1")]).await;
    let elsewhere = commit(&store, [put("/b/x", "1")]).await;
    let mut seen = Vec::new();
    loop {
        store.request_progress().await.unwrap();
        let event = next_of(&mut watch).await.unwrap();
        if event == WatchEvent::Progress(elsewhere) {
            break;
        }
        if !matches!(event, WatchEvent::Progress(_)) {
            seen.push(event);
        }
    }
    assert_eq!(stories(&seen), ["/a/x: nothing -> 1"]);
}

pub(crate) async fn large_commits_reach_a_watch(store: Tested) {
    let start = revision(&store).await;
    let mut live = store.watch("/big/", start).await.unwrap();
    let value = |number: u8| Bytes::from(vec![number; 700 * 1024]);
    for number in 0..12 {
        let operations = ["/big/x", "/big/y"].map(|key| Operation::Put(key.to_owned(), value(number)));
        commit(&store, operations).await;
    }
    let mut past = store.watch("/big/", start).await.unwrap();
    for watch in [&mut live, &mut past] {
        let events = take(watch, 24).await;
        for (number, commit) in (0u8..).zip(events.chunks(2)) {
            assert_eq!(commit[0].revision(), commit[1].revision());
            for event in commit {
                let WatchEvent::Put { current, previous } = event else { panic!("{}", event.key()) };
                assert!(current.value == value(number), "the value of commit {number}");
                assert_eq!(previous.is_some(), number > 0);
            }
        }
    }
}
