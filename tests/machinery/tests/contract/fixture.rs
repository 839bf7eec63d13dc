//! Stores to test, and short words for what the tests do with them.

use std::{path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::StreamExt;
use machinery_storage::{
    EmbeddedOptions, EmbeddedStore, EtcdOptions, EtcdStore, KeyValue, Operation, Outcome, Precondition,
    Range, Store, StoreError, Transaction, WatchEvent, WatchStream,
};

pub(crate) type Tested = Arc<dyn Store>;

pub(crate) async fn on_etcd(etcd: &controlplane::Etcd) -> Tested {
    let options =
        EtcdOptions { key_prefix: "/registry/test".to_owned(), ..EtcdOptions::new([etcd.endpoint()]) };
    Arc::new(EtcdStore::connect(options).await.unwrap())
}

pub(crate) async fn in_folder(folder: &Path) -> Tested {
    Arc::new(EmbeddedStore::open(EmbeddedOptions::new(folder.join("store"))).await.unwrap())
}

pub(crate) fn put(key: &str, value: &str) -> Operation {
    Operation::Put(key.to_owned(), Bytes::copy_from_slice(value.as_bytes()))
}

pub(crate) fn delete(key: &str) -> Operation {
    Operation::Delete(key.to_owned())
}

pub(crate) fn absent(key: &str) -> Precondition {
    Precondition::Absent(key.to_owned())
}

pub(crate) fn unchanged(key: &str, revision: i64) -> Precondition {
    Precondition::Unchanged(key.to_owned(), revision)
}

pub(crate) async fn commit_if(
    store: &Tested,
    preconditions: impl Into<Vec<Precondition>>,
    operations: impl Into<Vec<Operation>>,
) -> Outcome {
    let transaction = Transaction { preconditions: preconditions.into(), operations: operations.into() };
    store.commit(transaction).await.unwrap()
}

/// Commits, and returns the revision.
pub(crate) async fn commit(store: &Tested, operations: impl Into<Vec<Operation>>) -> i64 {
    match commit_if(store, [], operations).await {
        Outcome::Committed(revision) => revision,
        Outcome::Failed(states) => panic!("a commit without preconditions failed: {states:?}"),
    }
}

pub(crate) async fn revision(store: &Tested) -> i64 {
    store.get("/nothing").await.unwrap().revision
}

pub(crate) fn all(prefix: &str) -> Range {
    Range { prefix: prefix.to_owned(), ..Range::default() }
}

/// `key=value` of each, for comparison.
pub(crate) fn shown(items: &[KeyValue]) -> Vec<String> {
    items.iter().map(show).collect()
}

pub(crate) fn show(item: &KeyValue) -> String {
    format!("{}={}", item.key, String::from_utf8_lossy(&item.value))
}

/// `key: before -> after` of an event.
pub(crate) fn story(event: &WatchEvent) -> String {
    let text = |item: &KeyValue| String::from_utf8_lossy(&item.value).into_owned();
    let before = |item: &Option<KeyValue>| item.as_ref().map_or("nothing".to_owned(), text);
    match event {
        WatchEvent::Put { current, previous } => {
            format!("{}: {} -> {}", current.key, before(previous), text(current))
        }
        WatchEvent::Delete { previous, .. } => format!("{}: {} -> nothing", previous.key, text(previous)),
        WatchEvent::Progress(_) => "progress".to_owned(),
    }
}

pub(crate) fn stories(events: &[WatchEvent]) -> Vec<String> {
    events.iter().map(story).collect()
}

/// The next item of a watch, within half a minute: a connection to a store that hangs is given up after 9 s.
pub(crate) async fn next_of(watch: &mut WatchStream) -> Result<WatchEvent, StoreError> {
    tokio::time::timeout(Duration::from_secs(30), watch.next())
        .await
        .expect("the watch reports nothing")
        .expect("the watch has ended")
}

/// The next changes of a watch.
pub(crate) async fn take(watch: &mut WatchStream, count: usize) -> Vec<WatchEvent> {
    let mut events = Vec::new();
    while events.len() < count {
        let event = next_of(watch).await.unwrap();
        if !matches!(event, WatchEvent::Progress(_)) {
            events.push(event);
        }
    }
    events
}

/// Returns the error of a watch after that revision, at once or as its first item.
pub(crate) async fn watch_error(store: &Tested, prefix: &str, after_revision: i64) -> StoreError {
    match store.watch(prefix, after_revision).await {
        Err(error) => error,
        Ok(mut watch) => next_of(&mut watch).await.expect_err("the watch should fail"),
    }
}
