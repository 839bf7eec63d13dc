//! The watch cache: one watch of the store feeds every list and watch of a kind.

mod change;
mod cursor;
mod feed;
mod index;
mod queue;
mod scope;
mod subscribers;
mod usage;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use machinery_storage::StoreError;
use tokio::{
    sync::{mpsc::error::TryRecvError, watch},
    time::Instant,
};

pub(crate) use self::{change::Change, feed::feed, scope::Scope, usage::Usage};
use self::{
    index::{Contents, Index},
    queue::Receiver,
    subscribers::{Key, Subscribers},
};
use crate::{ApiError, Cause, Object, Reason, stored::Stored};

/// So long a reader waits for the cache to reach a revision.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

/// Maximum number of objects that one failure names, as upstream.
const MAX_UNREADABLE: usize = 100;

/// Objects, and the revision that they show.
pub(crate) type Shown<O> = (i64, Vec<Arc<Stored<O>>>);

/// A cache whose store was not heard of for so long is no longer taken for one that keeps up.
const SILENT: Duration = Duration::from_mins(1);

/// The objects of one kind, as far as the store's watch has told.
#[derive(Debug)]
pub(crate) struct Cache<O> {
    /// For messages, such as `evacuations.evacuation.dev`.
    resource: String,
    inner: Arc<Mutex<Inner<O>>>,
    /// The index's revision; 0 before the first filling.
    reached: watch::Sender<i64>,
    /// When the watch of the store was last heard of; absent until it has started.
    heard: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Inner<O> {
    index: Index<O>,
    subscribers: Subscribers<O>,
}

/// Where a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With the present state.
    Present,
    /// With the changes after a revision.
    After(i64),
}

/// A place in the stream of changes.
#[derive(Debug)]
pub(crate) struct Subscription<O> {
    /// The objects at the start, for [`Start::Present`].
    pub(crate) present: Vec<Arc<Stored<O>>>,
    /// The changes between the start and now.
    pub(crate) backlog: Vec<Arc<Change<O>>>,
    /// The changes from now on; closed when the reader falls behind or the cache is filled anew.
    pub(crate) changes: Receiver<O>,
    /// What `present` and `backlog` cover.
    pub(crate) revision: i64,
    /// Ends the subscription when it is dropped.
    _place: Option<Place<O>>,
}

/// A place among the subscribers, until it is dropped.
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

fn lock<O>(inner: &Mutex<Inner<O>>) -> MutexGuard<'_, Inner<O>> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<O: Object> Subscription<O> {
    /// Takes out the changes that wait, up to about that size. False when more are or may be to come: the reader was left behind and what
    /// came after these is lost to it, or others still wait.
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

/// The failure of a read from a cache that was never filled. Source of the rule: `k8s.io/apiserver/pkg/storage/cacher`.
pub(crate) fn not_filled() -> ApiError {
    ApiError::status(Reason::TooManyRequests, "storage is (re)initializing").retry_after(1)
}

impl<O: Object> Cache<O> {
    pub(crate) fn new(resource: String) -> Self {
        let inner = Inner { index: Index::new(), subscribers: Subscribers::new() };
        Self {
            resource,
            inner: Arc::new(Mutex::new(inner)),
            reached: watch::Sender::new(0),
            heard: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner<O>> {
        lock(&self.inner)
    }

    /// Takes note that the watch of the store has started, or has reported something.
    fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether it was filled, the watch of the store has started and it was heard of within a minute: it is asked every ten seconds.
    pub(crate) fn keeps_up(&self) -> bool {
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        self.synced() && heard.is_some_and(|heard| heard.elapsed() < SILENT)
    }

    /// Whether it was filled.
    pub(crate) fn synced(&self) -> bool {
        self.revision() > 0
    }

    /// Everything up to this revision is in; 0 before the first filling.
    pub(crate) fn revision(&self) -> i64 {
        *self.reached.borrow()
    }

    /// How many objects there are.
    pub(crate) fn len(&self) -> usize {
        self.inner().index.len()
    }

    /// Usage of a namespace and of all, and the revision up to which writes are counted in.
    pub(crate) fn usage(&self, namespace: &str) -> (i64, Usage, Usage) {
        let inner = self.inner();
        let (own, total) = inner.index.usage(namespace);
        (inner.index.revision(), own, total)
    }

    /// Usage of all, and the most objects and bytes that any namespace has.
    pub(crate) fn summary(&self) -> (Usage, Usage) {
        self.inner().index.summary()
    }

    /// Number of readers that were ended because they fell behind.
    pub(crate) fn behind(&self) -> u64 {
        self.inner().subscribers.behind()
    }

    /// The state of everything; ends every watch, for what happened between is unknown.
    fn replace(&self, revision: i64, contents: Contents<O>) {
        let mut inner = self.inner();
        inner.index.replace(revision, contents);
        inner.subscribers.end();
        self.reached.send_replace(revision);
    }

    fn apply(&self, revision: i64, key: &str, current: Option<Arc<Stored<O>>>) {
        let mut inner = self.inner();
        if let Some(change) = inner.index.apply(revision, key, current) {
            inner.subscribers.tell(&change);
        }
        // Under the lock: a reader that sees the revision finds its changes told.
        let revision = inner.index.revision();
        self.reached.send_replace(revision);
    }

    /// A write of an object that cannot be read: ends the watches that would be told of it.
    fn lose(&self, revision: i64, key: &str) {
        let mut inner = self.inner();
        inner.index.lose(revision, key);
        inner.subscribers.end_of(key);
        let revision = inner.index.revision();
        self.reached.send_replace(revision);
    }

    /// Fails when something in a scope cannot be decoded, and names it. Source of the form: `aggregatedStorageError` in
    /// `k8s.io/apiserver/pkg/storage/etcd3`.
    fn check(&self, index: &Index<O>, scope: &Scope) -> Result<(), ApiError> {
        let cause = |key: &str| Cause {
            reason: "UnexpectedServerResponse".to_owned(),
            message: format!("the stored object {key} cannot be decoded"),
            field: key.to_owned(),
        };
        let causes: Vec<Cause> = index.unreadable(scope).take(MAX_UNREADABLE).map(cause).collect();
        let Some(first) = causes.first() else {
            return Ok(());
        };
        let message =
            format!("failed to read one or more {} from the storage: {}", self.resource, first.message);
        Err(ApiError::Status { reason: Reason::StorageReadError, message, causes, retry_after_seconds: None })
    }

    fn progress(&self, revision: i64) {
        let mut inner = self.inner();
        inner.index.progress(revision);
        let revision = inner.index.revision();
        self.reached.send_replace(revision);
    }

    /// Waits until it is filled and everything up to that revision is in.
    ///
    /// # Errors
    ///
    /// `Timeout` when that takes too long, as when the revision lies in the future; `TooManyRequests` at once when it
    /// was never filled, as upstream.
    pub(crate) async fn wait_for(&self, revision: i64) -> Result<(), ApiError> {
        if !self.synced() {
            return Err(not_filled());
        }
        let mut reached = self.reached.subscribe();
        let wait = reached.wait_for(|reached| *reached > 0 && *reached >= revision);
        if matches!(tokio::time::timeout(FRESHNESS_WAIT, wait).await, Ok(Ok(_))) {
            return Ok(());
        }
        Err(StoreError::Future { requested: revision, current: self.revision() }.into())
    }

    /// One object, as far as it is known and can be read.
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Stored<O>>> {
        self.inner().index.get(key)
    }

    /// The objects that are wanted, and the revision that they show.
    ///
    /// # Errors
    ///
    /// `InternalError` with the key of one that cannot be read.
    pub(crate) fn list(&self, scope: &Scope, after: Option<&str>) -> Result<Shown<O>, ApiError> {
        let inner = self.inner();
        self.check(&inner.index, scope)?;
        Ok((inner.index.revision(), inner.index.list(scope, after)))
    }

    /// The same as of an earlier revision; `None` when that was forgotten, and when something cannot be read now.
    pub(crate) fn list_at(
        &self,
        revision: i64,
        scope: &Scope,
        after: Option<&str>,
    ) -> Option<Vec<Arc<Stored<O>>>> {
        let inner = self.inner();
        self.check(&inner.index, scope).ok()?;
        inner.index.list_at(revision, scope, after)
    }

    /// Starts to follow the changes.
    ///
    /// # Errors
    ///
    /// `Expired` when the changes after that revision were forgotten, `InternalError` with the key of an object that cannot be read.
    pub(crate) fn subscribe(&self, scope: &Scope, start: Start) -> Result<Subscription<O>, ApiError> {
        let mut inner = self.inner();
        self.check(&inner.index, scope)?;
        let (present, backlog) = match start {
            Start::Present => (inner.index.list(scope, None), Vec::new()),
            Start::After(revision) => {
                let oldest = inner.index.floor();
                let backlog = inner.index.changes_after(revision, scope);
                (Vec::new(), backlog.ok_or(StoreError::Compacted { requested: revision, oldest })?)
            }
        };
        let (key, changes) = inner.subscribers.add(scope.clone());
        let place = Place { inner: self.inner.clone(), key };
        Ok(Subscription { present, backlog, changes, revision: inner.index.revision(), _place: Some(place) })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cache_keeps_up_once_its_watch_has_started_and_until_nothing_was_heard_of_it_for_a_minute() {
        let cache: Cache<ConfigMap> = Cache::new("configmaps".to_owned());
        assert!(!cache.keeps_up(), "not filled");
        cache.replace(1, Contents::new());
        assert!(!cache.keeps_up(), "filled, and not watched");
        cache.hear();
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(cache.keeps_up());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!cache.keeps_up());
        cache.hear();
        assert!(cache.keeps_up());
    }

    #[test]
    fn a_reader_that_leaves_is_forgotten_at_once() {
        let cache: Cache<ConfigMap> = Cache::new("configmaps".to_owned());
        let scope = Scope::new("n", None, true);
        let left = cache.subscribe(&scope, Start::Present).expect("a subscription");
        let _stays = cache.subscribe(&scope, Start::Present).expect("a subscription");
        assert_eq!(cache.inner().subscribers.len(), 2);
        drop(left);
        assert_eq!(cache.inner().subscribers.len(), 1);
        let ended = cache.subscribe(&scope, Start::Present).expect("a subscription");
        cache.replace(1, Contents::new());
        drop(ended);
        assert_eq!(cache.inner().subscribers.len(), 0);
    }
}
