//! Watch cache: one watch of the store serves every list and watch of a kind.

mod change;
mod cursor;
mod entry;
mod feed;
mod group;
mod index;
mod queue;
mod recent;
mod scope;
mod snapshot;
mod subscribers;
mod subscription;
#[cfg(test)]
pub(crate) mod testing;
mod usage;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use machinery_storage::{History, StoreError};
use tokio::{sync::watch, time::Instant};

pub(crate) use self::{
    change::Change,
    entry::{Entry, Head},
    feed::feed,
    group::FieldValue,
    scope::Scope,
    snapshot::{Objects, Snapshot},
    subscription::{Start, Subscription},
    usage::Usage,
};
use self::{
    index::{Contents, Index},
    recent::Recent,
    subscribers::Subscribers,
};
use crate::{ApiError, Cause, Object, Reason, Removable, stored::Stored};

/// Maximum time for which a reader waits for the cache to reach a revision.
const FRESHNESS_WAIT: Duration = Duration::from_secs(3);

/// Maximum number of objects that one failure names, as upstream.
const MAX_UNREADABLE: usize = 100;

/// Silence of the store after which a cache no longer counts as up to date.
const SILENT: Duration = Duration::from_mins(1);

/// Makes the head of an object of a kind.
pub(crate) type Heads<O> = Box<dyn Fn(&O) -> Head + Send + Sync>;

/// Makes the object that stands for one of that namespace and name that cannot be read, if the kind has one.
pub(crate) type StandIns<O> = Box<dyn Fn(&str, &str) -> Option<O> + Send + Sync>;

/// Objects of one kind, as reported by the watch of the store.
pub(crate) struct Cache<O> {
    /// For messages, such as `evacuations.evacuation.dev`.
    resource: String,
    heads: Heads<O>,
    stand_ins: StandIns<O>,
    inner: Arc<Mutex<Inner<O>>>,
    recent: Arc<Recent<O>>,
    /// Histories of the store.
    history: History,
    /// Number of the history that the index shows. It changes under the lock of `inner`.
    shown: AtomicU64,
    /// Revision of the index; 0 before the first filling, and after the store went back.
    reached: watch::Sender<i64>,
    /// Time of the last report of the store's watch; `None` until that watch has started.
    heard: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Inner<O> {
    index: Index<O>,
    subscribers: Subscribers<O>,
}

fn lock<O>(inner: &Mutex<Inner<O>>) -> MutexGuard<'_, Inner<O>> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end of a watch of a history that the store has left. On it, clients list again.
pub(crate) fn went_back() -> ApiError {
    ApiError::status(Reason::Expired, "the storage was restored from a backup: list again")
}

/// The failure of a read from a cache that was never filled. Source of the rule:
/// `k8s.io/apiserver/pkg/storage/cacher`.
pub(crate) fn not_filled() -> ApiError {
    ApiError::status(Reason::TooManyRequests, "storage is (re)initializing").retry_after(1)
}

/// Usage of the objects of a cache at one revision.
pub(crate) struct UsageView<'a, O>(MutexGuard<'a, Inner<O>>);

impl<O: Object> UsageView<'_, O> {
    /// Returns the revision that the cache shows.
    pub(crate) fn revision(&self) -> i64 {
        self.0.index.revision()
    }

    /// Returns the usage of a namespace and of all.
    pub(crate) fn of(&self, namespace: &str) -> (Usage, Usage) {
        self.0.index.usage(namespace)
    }

    /// Returns the usage of the objects of a namespace that a test picks. It looks at every object.
    pub(crate) fn of_picked(&self, namespace: &str, picks: impl Fn(&Head) -> bool) -> Usage {
        self.0.index.usage_of(namespace, picks)
    }

    /// Returns the objects of a namespace, or of all for `None`, that are removable now or later, and those
    /// that finalizers hold.
    pub(crate) fn removable(
        &self,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (&Arc<Entry<O>>, &Removable)> {
        let all = self.0.index.entries(namespace);
        all.filter_map(|entry| Some((entry, entry.head().removable()?)))
    }

    /// Returns true when the cache has an object under that key that was written after a revision.
    pub(crate) fn shows(&self, key: &str, after: i64) -> bool {
        self.0.index.get(key).is_some_and(|entry| entry.revision() > after)
    }
}

impl<O> fmt::Debug for Cache<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("resource", &self.resource).finish_non_exhaustive()
    }
}

impl<O: Object> Cache<O> {
    pub(crate) fn new(resource: String, heads: Heads<O>, stand_ins: StandIns<O>, history: History) -> Self {
        let inner = Inner { index: Index::new(), subscribers: Subscribers::new() };
        Self {
            resource,
            heads,
            stand_ins,
            inner: Arc::new(Mutex::new(inner)),
            recent: Arc::new(Recent::new()),
            shown: AtomicU64::new(history.number()),
            history,
            reached: watch::Sender::new(0),
            heard: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner<O>> {
        lock(&self.inner)
    }

    /// Returns an object as the cache keeps it. The key is relative to the prefix of the kind.
    ///
    /// # Errors
    ///
    /// It has no JSON.
    pub(crate) fn entry(&self, key: &str, stored: &Stored<O>) -> Result<Arc<Entry<O>>, ApiError> {
        let head = (self.heads)(stored);
        Ok(Arc::new(Entry::new(key.into(), stored, head, self.recent.clone())?))
    }

    /// Returns what stands for an object that cannot be read, for the readers that skip such objects. Most
    /// kinds have nothing: the object is left out.
    pub(crate) fn stand_in(&self, key: &str, revision: i64) -> Option<Arc<Entry<O>>> {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let mut object = (self.stand_ins)(namespace, name)?;
        let metadata = object.meta_mut();
        metadata.namespace = Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty());
        metadata.name = Some(name.to_owned());
        let entry = self.entry(key, &Stored::new(object, revision));
        entry.map_err(|error| tracing::error!(key, %error, "no stand-in can be made")).ok()
    }

    /// Keeps a decoded object for those who need it next.
    pub(crate) fn remember(&self, key: &str, stored: &Arc<Stored<O>>) {
        self.recent.put(&key.into(), stored);
    }

    /// Returns an object that was decoded lately.
    fn recall(&self, key: &str, revision: i64) -> Option<Arc<Stored<O>>> {
        self.recent.get(&key.into(), revision)
    }

    /// Records that the watch of the store has started, or has reported something.
    fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Returns true when the cache is filled, the watch of the store has started, and its last report is less
    /// than a minute old. The store is asked for progress every ten seconds.
    pub(crate) fn keeps_up(&self) -> bool {
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        self.synced() && heard.is_some_and(|heard| heard.elapsed() < SILENT)
    }

    /// Returns true when the cache is filled from the present history of the store.
    pub(crate) fn synced(&self) -> bool {
        self.revision() > 0
    }

    /// Returns the revision that the cache shows; 0 before the first filling, and from the moment at which
    /// the store went back until the next one.
    pub(crate) fn revision(&self) -> i64 {
        if self.is_of_the_past() { 0 } else { *self.reached.borrow() }
    }

    /// Returns true when the store went back after the cache was filled.
    fn is_of_the_past(&self) -> bool {
        self.shown_history() != self.history.number()
    }

    /// Returns the number of the store's history that the cache shows.
    fn shown_history(&self) -> u64 {
        self.shown.load(Ordering::Acquire)
    }

    /// Empties the cache because the store went back, and ends every watch. Nothing of it is served until it
    /// is filled again.
    fn go_back(&self, history: u64) {
        let mut inner = self.inner();
        self.shown.store(history, Ordering::Release);
        inner.index.replace(0, Contents::new());
        inner.subscribers.end();
        // The same revision can name another state of the object.
        self.recent.clear();
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.reached.send_replace(0);
    }

    /// Returns the number of objects.
    pub(crate) fn len(&self) -> usize {
        self.inner().index.len()
    }

    /// Locks the cache to read its usage at one revision.
    pub(crate) fn usage(&self) -> UsageView<'_, O> {
        UsageView(self.inner())
    }

    /// Returns the usage of all namespaces, and the largest number and size of any namespace.
    pub(crate) fn summary(&self) -> (Usage, Usage) {
        self.inner().index.summary()
    }

    /// Returns the number of objects that cannot be read.
    pub(crate) fn unreadable(&self) -> usize {
        self.inner().index.unreadable(&Scope::default()).count()
    }

    /// Returns the number of readers that were ended because they fell behind.
    pub(crate) fn behind(&self) -> u64 {
        self.inner().subscribers.behind()
    }

    /// Replaces all contents, and ends every watch: the changes in between are unknown.
    fn replace(&self, revision: i64, contents: Contents<O>) {
        let mut inner = self.inner();
        inner.index.replace(revision, contents);
        inner.subscribers.end();
        self.reached.send_replace(revision);
    }

    fn apply(&self, revision: i64, key: &str, current: Option<Arc<Entry<O>>>) {
        let mut inner = self.inner();
        if let Some(change) = inner.index.apply(revision, key, current) {
            inner.subscribers.tell(&change);
        }
        // Under the lock: a reader that sees the revision has received its changes.
        let revision = inner.index.revision();
        self.reached.send_replace(revision);
    }

    /// Applies a write of an object that cannot be read, and ends the watches that cover it, also of readers
    /// that skip it: they list again. A deletion would be false, and a watcher may remember it.
    fn lose(&self, revision: i64, key: &str) {
        let stand_in = self.stand_in(key, revision);
        let mut inner = self.inner();
        inner.index.lose(revision, key, stand_in);
        inner.subscribers.end_of(key);
        let revision = inner.index.revision();
        self.reached.send_replace(revision);
    }

    /// Fails when an object of a scope cannot be read and is not to be skipped, and when the store went back.
    fn check(&self, index: &Index<O>, scope: &Scope) -> Result<(), ApiError> {
        if self.is_of_the_past() {
            return Err(not_filled());
        }
        if scope.skips_unreadable() {
            return Ok(());
        }
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

    /// Waits until the cache is filled and shows that revision.
    ///
    /// # Errors
    ///
    /// `Timeout` when that takes too long, as when the revision lies in the future; `TooManyRequests` at once
    /// when it was never filled, as upstream.
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

    /// Returns one object, if it is known and can be read.
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Entry<O>>> {
        if self.is_of_the_past() { None } else { self.inner().index.get(key) }
    }

    /// Returns the objects of a scope.
    ///
    /// # Errors
    ///
    /// `StorageReadError` with the key of an object that cannot be read.
    pub(crate) fn list(&self, scope: &Scope, after: Option<&str>) -> Result<Snapshot<O>, ApiError> {
        let inner = self.inner();
        self.check(&inner.index, scope)?;
        Ok(inner.index.list(scope, after))
    }

    /// Returns the objects of a scope at an earlier revision. `None` when it was forgotten, and when an
    /// object cannot be read now.
    pub(crate) fn list_at(&self, revision: i64, scope: &Scope, after: Option<&str>) -> Option<Snapshot<O>> {
        let inner = self.inner();
        self.check(&inner.index, scope).ok()?;
        inner.index.list_at(revision, scope, after)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cache_keeps_up_once_its_watch_has_started_and_until_nothing_was_heard_of_it_for_a_minute() {
        let cache: Cache<ConfigMap> = testing::cache();
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
}
