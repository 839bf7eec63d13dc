//! Compaction of etcd, so that its history does not grow without limit.

use std::{sync::Arc, time::Duration};

use machinery_storage::{Store, StoreError};

/// Key that is read for the store's revision. It belongs to no kind.
const KEY: &str = "/compaction";

/// Compacts the store each `interval`: it then drops the history before the previous compaction's time.
///
/// Readers and watches so have at least one interval to resume. Several replicas can run this side by side,
/// because none drops what is younger than an interval. kube-apiserver does the same in its own etcd.
pub(crate) async fn run(store: Arc<dyn Store>, interval: Duration) {
    let mut before = None;
    loop {
        match compact(&*store, before).await {
            Ok(revision) => before = Some(revision),
            Err(error) => tracing::warn!(%error, "the store was not compacted"),
        }
        tokio::time::sleep(interval).await;
    }
}

/// Drops the history before that revision, and returns the store's revision.
async fn compact(store: &dyn Store, before: Option<i64>) -> Result<i64, StoreError> {
    let now = store.get(KEY).await?.revision;
    if let Some(before) = before {
        match store.compact(before).await {
            // Another replica, or etcd itself, was faster.
            Ok(()) | Err(StoreError::Compacted { .. }) => tracing::debug!(revision = before, "compacted"),
            // A restored backup is behind.
            Err(StoreError::Future { .. }) => tracing::warn!(before, now, "the store went back"),
            Err(error) => return Err(error),
        }
    }
    Ok(now)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use machinery_storage::{EmbeddedOptions, EmbeddedStore, Operation, Transaction};

    use super::*;

    async fn put(store: &dyn Store, value: &'static str) -> i64 {
        let put = Operation::Put("/a".to_owned(), Bytes::from_static(value.as_bytes()));
        let wanted = Transaction { preconditions: Vec::new(), operations: vec![put] };
        store.commit(wanted).await.expect("committed");
        store.get("/a").await.expect("read").revision
    }

    #[tokio::test]
    async fn history_older_than_an_interval_is_dropped_and_younger_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = EmbeddedOptions::new(folder.path().join("store"));
        let store = EmbeddedStore::open(options).await.expect("opened");
        let first = put(&store, "1").await;
        let noted = compact(&store, None).await.expect("noted");
        let second = put(&store, "2").await;
        assert!(store.watch("/", first - 1).await.is_ok(), "nothing is dropped at the start");

        assert_eq!(compact(&store, Some(noted)).await.expect("compacted"), second);
        assert!(matches!(store.watch("/", first - 1).await, Err(StoreError::Compacted { .. })));
        assert!(store.watch("/", first).await.is_ok(), "the last interval is kept");
        // A store that was restored from a backup starts over.
        assert_eq!(compact(&store, Some(second + 1000)).await.expect("noted"), second);
        // A second replica finds it done.
        assert_eq!(compact(&store, Some(noted)).await.expect("was done"), second);
    }
}
