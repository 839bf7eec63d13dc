//! Writes.

use bytes::Bytes;
use machinery_storage::{Operation, Outcome, StoreError, Transaction};

use crate::fixture::{
    Tested, absent, all, commit, commit_if, delete, put, revision, show, shown, stories, take, unchanged,
};

pub(crate) async fn a_value_is_read_back_with_its_revisions(store: Tested) {
    let created = commit(&store, [put("/a/x", "1")]).await;
    let changed = commit(&store, [put("/a/x", "2")]).await;
    assert!(changed > created);
    let read = store.get("/a/x").await.unwrap();
    assert_eq!(read.revision, changed);
    let found = read.found.unwrap();
    assert_eq!(
        (show(&found).as_str(), found.create_revision, found.mod_revision),
        ("/a/x=2", created, changed)
    );
}

pub(crate) async fn a_failed_precondition_changes_nothing_and_shows_what_is_there(store: Tested) {
    let first = commit(&store, [put("/a/x", "1")]).await;
    let before = revision(&store).await;
    let cases = [
        vec![absent("/a/x"), absent("/a/y")],
        vec![unchanged("/a/x", first + 1), absent("/a/y")],
        vec![unchanged("/a/x", first), unchanged("/a/y", first)],
    ];
    for preconditions in cases {
        let outcome = commit_if(&store, preconditions.clone(), [put("/a/x", "2"), put("/a/z", "2")]).await;
        let Outcome::Failed(states) = outcome else { panic!("{preconditions:?} held") };
        let shown: Vec<_> = states.iter().map(|state| state.as_ref().map(show)).collect();
        assert_eq!(shown, [Some("/a/x=1".to_owned()), None], "{preconditions:?}");
        assert_eq!(states[0].as_ref().unwrap().mod_revision, first);
    }
    assert_eq!(revision(&store).await, before);
    assert_eq!(shown(&store.list(&all("/a/")).await.unwrap().items), ["/a/x=1"]);
    let outcome =
        commit_if(&store, [unchanged("/a/x", first), absent("/a/y")], [put("/a/x", "2"), put("/a/y", "2")])
            .await;
    assert_eq!(outcome, Outcome::Committed(before + 1));
    assert_eq!(shown(&store.list(&all("/a/")).await.unwrap().items), ["/a/x=2", "/a/y=2"]);
}

pub(crate) async fn a_key_that_was_deleted_is_absent_and_starts_anew(store: Tested) {
    let first = commit(&store, [put("/a/x", "1")]).await;
    let deleted = commit(&store, [delete("/a/x")]).await;
    assert_eq!(deleted, first + 1);
    assert_eq!(store.get("/a/x").await.unwrap().found, None);
    let outcome = commit_if(&store, [absent("/a/x")], [put("/a/x", "2")]).await;
    assert_eq!(outcome, Outcome::Committed(deleted + 1));
    let found = store.get("/a/x").await.unwrap().found.unwrap();
    assert_eq!((found.create_revision, found.mod_revision), (deleted + 1, deleted + 1));
}

pub(crate) async fn an_absent_key_is_never_unchanged(store: Tested) {
    for claimed in [0, -1, 1] {
        let outcome = commit_if(&store, [unchanged("/a/x", claimed)], [put("/a/x", "1")]).await;
        assert_eq!(outcome, Outcome::Failed(vec![None]), "at {claimed}");
    }
}

pub(crate) async fn deleting_nothing_is_no_commit(store: Tested) {
    let before = commit(&store, [put("/a/x", "1")]).await;
    assert_eq!(commit(&store, [delete("/a/y")]).await, before);
    assert_eq!(commit(&store, []).await, before);
    assert_eq!(commit(&store, [put("/a/x", "2")]).await, before + 1);
}

pub(crate) async fn of_several_operations_on_a_key_the_last_counts(store: Tested) {
    let operations = [put("/a/x", "1"), put("/a/y", "1"), delete("/a/x"), put("/a/y", "2"), put("/a/x", "3")];
    let mut watch = store.watch("/a/", revision(&store).await).await.unwrap();
    let revision = commit(&store, operations).await;
    let page = store.list(&all("/a/")).await.unwrap();
    assert_eq!(shown(&page.items), ["/a/x=3", "/a/y=2"]);
    assert!(page.items.iter().all(|item| item.mod_revision == revision));
    commit(&store, [put("/a/x", "4"), delete("/a/x")]).await;
    assert_eq!(store.get("/a/x").await.unwrap().found, None);
    let mut events = stories(&take(&mut watch, 3).await);
    events[..2].sort();
    assert_eq!(events, ["/a/x: nothing -> 3", "/a/y: nothing -> 2", "/a/x: 3 -> nothing"]);
}

pub(crate) async fn one_of_fifty_concurrent_claims_wins(store: Tested) {
    let claims = (0..50).map(|number| {
        let store = store.clone();
        tokio::spawn(async move {
            let operations =
                [put("/claims/pod", &number.to_string()), put(&format!("/objects/{number}"), "claimed")];
            commit_if(&store, [absent("/claims/pod")], operations).await
        })
    });
    let outcomes: Vec<_> =
        futures::future::join_all(claims).await.into_iter().map(|outcome| outcome.unwrap()).collect();
    let won: Vec<_> = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Committed(_))).collect();
    assert_eq!(won.len(), 1);
    let winner = store.get("/claims/pod").await.unwrap().found.unwrap();
    for outcome in &outcomes {
        if let Outcome::Failed(states) = outcome {
            assert_eq!(states, &[Some(winner.clone())], "a loser sees the winner");
        }
    }
    let objects = store.list(&all("/objects/")).await.unwrap().items;
    assert_eq!(shown(&objects), [format!("/objects/{}=claimed", String::from_utf8_lossy(&winner.value))]);
}

pub(crate) async fn concurrent_increments_lose_nothing(store: Tested) {
    commit(&store, [put("/a/count", "0")]).await;
    let workers = (0..8).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                loop {
                    let found = store.get("/a/count").await.unwrap().found.unwrap();
                    let count: u32 = String::from_utf8_lossy(&found.value).parse().unwrap();
                    let next = put("/a/count", &(count + 1).to_string());
                    let outcome =
                        commit_if(&store, [unchanged("/a/count", found.mod_revision)], [next]).await;
                    if let Outcome::Committed(_) = outcome {
                        break;
                    }
                }
            }
        })
    });
    for worker in futures::future::join_all(workers).await {
        worker.unwrap();
    }
    assert_eq!(show(&store.get("/a/count").await.unwrap().found.unwrap()), "/a/count=200");
}

pub(crate) async fn a_value_of_a_megabyte_is_kept(store: Tested) {
    let value: Bytes = (0..1024 * 1024).map(|index: u32| index.to_le_bytes()[index as usize % 3]).collect();
    for key in ["/big/0", "/big/1", "/big/2", "/big/3", "/big/4", "/big/5"] {
        commit(&store, [Operation::Put(key.to_owned(), value.clone())]).await;
    }
    assert_eq!(store.get("/big/3").await.unwrap().found.unwrap().value, value);
    // More than gRPC takes by default.
    let page = store.list(&all("/big/")).await.unwrap();
    assert_eq!(page.items.len(), 6);
    assert!(page.items.iter().all(|item| item.value == value));
}

pub(crate) async fn a_value_beyond_the_limit_is_too_large(store: Tested) {
    let before = revision(&store).await;
    for size in [1600 * 1024, 5 * 1024 * 1024] {
        let operations =
            vec![put("/a/small", "1"), Operation::Put("/a/large".to_owned(), Bytes::from(vec![b'x'; size]))];
        let error = store.commit(Transaction { preconditions: Vec::new(), operations }).await.unwrap_err();
        let StoreError::TooLarge { key, size: reported } = &error else { panic!("{error:?}") };
        assert_eq!((key.as_str(), *reported), ("/a/large", size));
    }
    assert_eq!(revision(&store).await, before);
}
