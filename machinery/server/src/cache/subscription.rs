//! Readers that follow the changes of a scope.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use machinery_storage::StoreError;
use tokio::sync::mpsc::error::TryRecvError;

use super::{Cache, Change, FieldValue, Inner, Scope, Snapshot, lock, queue::Receiver, subscribers::Key};
use crate::{ApiError, Object};

/// Start of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The present state.
    Present,
    /// The changes after a revision.
    After(i64),
}

/// Position of a reader in the stream of changes.
#[derive(Debug)]
pub(crate) struct Subscription<O> {
    /// Objects at the start, for [`Start::Present`].
    pub(crate) present: Snapshot<O>,
    /// Changes between the start and now.
    pub(crate) backlog: Vec<Arc<Change<O>>>,
    /// Changes from now on; closed when the reader falls behind or the cache is filled again.
    pub(crate) changes: Receiver<O>,
    /// Revision that `present` and `backlog` cover.
    pub(crate) revision: i64,
    /// Number of the store's history that they belong to.
    history: u64,
    /// Ends the subscription when it is dropped.
    _place: Place<O>,
}

/// Registration of a subscriber, until it is dropped.
#[derive(Debug)]
struct Place<O> {
    inner: Arc<Mutex<Inner<O>>>,
    key: Key,
}

impl<O> Drop for Place<O> {
    fn drop(&mut self) {
        lock(&self.inner).subscribers.remove(&self.key);
    }
}

impl<O: Object> Subscription<O> {
    /// Takes out waiting changes, up to about that size. Returns true when none is left and none was lost.
    /// Returns false when more wait, or when the reader fell behind and lost what came after.
    pub(crate) fn take_waiting(&mut self, into: &mut VecDeque<Arc<Change<O>>>, most: usize) -> bool {
        let mut size = 0;
        while size < most {
            match self.changes.try_recv() {
                Ok(change) => {
                    size = size.saturating_add(change.size());
                    into.push_back(change);
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        false
    }
}

impl<O: Object> Cache<O> {
    /// Returns true when the store went back after a subscription began.
    pub(crate) fn has_left(&self, subscription: &Subscription<O>) -> bool {
        self.shown_history() != subscription.history
    }

    /// Subscribes to the changes of a scope. With a field, it is told only of objects that have or had that
    /// value.
    ///
    /// # Errors
    ///
    /// `Expired` when the changes after that revision were forgotten, `StorageReadError` with the key of an
    /// object that cannot be read and is not to be skipped.
    pub(crate) fn subscribe(
        &self,
        scope: &Scope,
        field: Option<FieldValue>,
        start: Start,
    ) -> Result<Subscription<O>, ApiError> {
        let mut inner = self.inner();
        self.check(&inner.index, scope)?;
        let (present, backlog) = match start {
            Start::Present => (inner.index.list(scope, None), Vec::new()),
            Start::After(revision) => {
                let oldest = inner.index.floor();
                let backlog = inner.index.changes_after(revision, scope);
                (
                    Snapshot::empty(revision),
                    backlog.ok_or(StoreError::Compacted { requested: revision, oldest })?,
                )
            }
        };
        let (key, changes) = inner.subscribers.add(scope.clone(), field);
        let place = Place { inner: self.inner.clone(), key };
        let (revision, history) = (inner.index.revision(), self.shown_history());
        Ok(Subscription { present, backlog, changes, revision, history, _place: place })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::cache::{Contents, testing};

    #[test]
    fn a_reader_that_was_left_behind_is_not_told_that_it_has_everything() {
        let cache: Cache<ConfigMap> = testing::cache();
        let scope = Scope::new("n", None, true);
        let mut slow = cache.subscribe(&scope, None, Start::Present).expect("a subscription");
        let tell = |revision| {
            cache.apply(revision, "n/a", Some(testing::entry("n/a", revision, ConfigMap::default())));
        };
        let mut taken = VecDeque::new();
        tell(1);
        assert!(slow.take_waiting(&mut taken, usize::MAX), "nothing was lost yet");
        let mut last = 1;
        while cache.behind() == 0 {
            last += 1;
            tell(last);
        }
        assert!(!slow.take_waiting(&mut taken, usize::MAX), "the last change did not fit");
        assert_eq!(taken.back().map(|change| change.revision), Some(last - 1));
    }

    #[tokio::test]
    async fn nothing_is_served_from_the_moment_at_which_the_store_went_back_until_the_next_filling() {
        let number = tokio::sync::watch::Sender::new(0);
        let cache = testing::cache_of(machinery_storage::History::counted(number.subscribe()));
        let scope = Scope::new("n", None, true);
        cache.apply(9, "n/a", Some(testing::entry("n/a", 9, ConfigMap::default())));
        let mut reader = cache.subscribe(&scope, None, Start::Present).expect("a subscription");
        number.send_replace(1);
        assert!(!cache.synced() && cache.get("n/a").is_none() && cache.list_at(9, &scope, None).is_none());
        assert!(cache.list(&scope, None).is_err() && cache.subscribe(&scope, None, Start::Present).is_err());
        assert!(cache.wait_for(1).await.is_err());
        cache.go_back(1);
        assert!(!cache.synced() && reader.changes.recv().await.is_none() && cache.has_left(&reader));
        cache.replace(5, Contents::new());
        assert_eq!((cache.revision(), cache.list(&scope, None).expect("filled").iter().count()), (5, 0));
        let next = cache.subscribe(&scope, None, Start::After(5)).expect("a subscription");
        assert!(!cache.has_left(&next), "the next history");
    }

    #[test]
    fn a_reader_that_leaves_is_forgotten_at_once() {
        let cache: Cache<ConfigMap> = testing::cache();
        let scope = Scope::new("n", None, true);
        let left = cache.subscribe(&scope, None, Start::Present).expect("a subscription");
        let _stays = cache.subscribe(&scope, None, Start::Present).expect("a subscription");
        assert_eq!(cache.inner().subscribers.len(), 2);
        drop(left);
        assert_eq!(cache.inner().subscribers.len(), 1);
        let ended = cache.subscribe(&scope, None, Start::Present).expect("a subscription");
        cache.replace(1, Contents::new());
        drop(ended);
        assert_eq!(cache.inner().subscribers.len(), 0);
    }
}
