//! Watches.

use std::{collections::VecDeque, sync::Arc};

use async_trait::async_trait;

use super::{Registry, projection::Projection};
use crate::{
    ApiError, Object, Reason, Strategy,
    cache::{self, Change, Entry, Scope, Snapshot, Start, Subscription},
    item::Item,
};

/// Size of the changes that are handed over at once, about. A client that reads slowly keeps little more in
/// memory.
const BATCH_BYTES: usize = 64 * 1024;

/// Start of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchFrom {
    /// The newest state, then its changes.
    Newest,
    /// The cached state.
    Any,
    /// The state of a revision or a later one.
    AtLeast(i64),
    /// The changes after a revision.
    After(i64),
    /// The changes from now on.
    Now,
}

/// Type of an event, as the watcher sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

/// One event of a watch.
#[derive(Clone)]
pub(crate) struct WatchEvent {
    pub(crate) event_type: EventType,
    pub(crate) item: Arc<dyn Item>,
}

/// Watch in progress, of any kind.
#[async_trait]
pub(crate) trait Watching: Send {
    /// Returns the objects at the start and the revision that they show; once, before anything else. `None`
    /// when the watch starts with changes.
    fn present(&mut self) -> Result<Option<(Vec<WatchEvent>, i64)>, ApiError>;

    /// Returns the next events, at least one. `None` when the watch was ended because its reader fell behind
    /// or the cache was filled again. Nothing is lost when the call is dropped.
    ///
    /// # Errors
    ///
    /// `Expired` when the store went back.
    async fn next(&mut self) -> Result<Option<Vec<WatchEvent>>, ApiError>;

    /// Returns waiting events, and the revision up to which nothing else happened. There is no revision when
    /// the watch fell behind or more events wait.
    fn drain(&mut self) -> Result<(Vec<WatchEvent>, Option<i64>), ApiError>;
}

struct Watch<S: Strategy> {
    registry: Arc<Registry<S>>,
    projection: Box<dyn Projection<S::Object>>,
    subscription: Subscription<S::Object>,
    with_present: bool,
    /// Changes that were received and not handed over.
    received: VecDeque<Arc<Change<S::Object>>>,
}

#[async_trait]
impl<S: Strategy> Watching for Watch<S> {
    fn present(&mut self) -> Result<Option<(Vec<WatchEvent>, i64)>, ApiError> {
        if !std::mem::take(&mut self.with_present) {
            return Ok(None);
        }
        let present = &self.subscription.present;
        let items = present.iter().filter_map(|entry| self.projection.see(entry).transpose());
        let events = items.map(|item| Ok(WatchEvent { event_type: EventType::Added, item: item? }));
        let events = events.collect::<Result<_, ApiError>>()?;
        self.subscription.present = Snapshot::empty(self.subscription.revision);
        Ok(Some((events, self.subscription.revision)))
    }

    async fn next(&mut self) -> Result<Option<Vec<WatchEvent>>, ApiError> {
        loop {
            let events = self.take()?;
            if !events.is_empty() {
                return Ok(Some(events));
            }
            if self.received.is_empty() {
                let Some(change) = self.subscription.changes.recv().await else {
                    let left = self.registry.cache.has_left(&self.subscription);
                    return if left { Err(cache::went_back()) } else { Ok(None) };
                };
                self.received.push_back(change);
                self.subscription.take_waiting(&mut self.received, BATCH_BYTES);
            }
        }
    }

    fn drain(&mut self) -> Result<(Vec<WatchEvent>, Option<i64>), ApiError> {
        // The revision first: the changes up to it are in the queue by now.
        let revision = self.registry.cache.revision().max(self.subscription.revision);
        let whole = self.subscription.take_waiting(&mut self.received, BATCH_BYTES);
        let newest = self.received.back().map_or(0, |change| change.revision);
        let events = self.take()?;
        // A watch that fell behind, or has more events, knows no revision up to which it is complete.
        Ok((events, (whole && self.received.is_empty()).then_some(revision.max(newest))))
    }
}

impl<S: Strategy> Watch<S> {
    /// Returns the events of received changes, up to the size of a batch.
    fn take(&mut self) -> Result<Vec<WatchEvent>, ApiError> {
        let (mut events, mut size) = (Vec::new(), 0);
        while size < BATCH_BYTES
            && let Some(change) = self.received.pop_front()
        {
            size += change.size();
            events.extend(transition(self.projection.as_ref(), &change)?);
        }
        Ok(events)
    }
}

/// Returns the event of a change for a projection. An object that enters the projection was added, one that
/// leaves it was deleted.
fn transition<O: Object>(
    projection: &dyn Projection<O>,
    change: &Change<O>,
) -> Result<Option<WatchEvent>, ApiError> {
    let see = |entry: Option<&Arc<Entry<O>>>| entry.map_or(Ok(None), |entry| projection.see(entry));
    let was_seen = see(change.previous.as_ref())?.is_some();
    if let Some(item) = see(change.current.as_ref())? {
        let event_type = if was_seen { EventType::Modified } else { EventType::Added };
        return Ok(Some(WatchEvent { event_type, item }));
    }
    if !was_seen {
        return Ok(None);
    }
    let gone = see(change.gone()?.as_ref())?;
    Ok(gone.map(|item| WatchEvent { event_type: EventType::Deleted, item }))
}

impl<S: Strategy> Registry<S> {
    /// Starts a watch of the projection of a scope.
    ///
    /// # Errors
    ///
    /// `Expired` when the changes after the revision are forgotten, or when the store itself has not reached
    /// it. Its history was then turned back, as by a restored backup, and the client must list again.
    /// `Timeout` when only the cache is behind.
    pub(crate) async fn watch_items(
        self: &Arc<Self>,
        scope: &Scope,
        from: WatchFrom,
        projection: Box<dyn Projection<S::Object>>,
    ) -> Result<Box<dyn Watching>, ApiError> {
        let start = match from {
            WatchFrom::Newest => {
                self.catch_up().await?;
                Start::Present
            }
            WatchFrom::Any => {
                self.cache.wait_for(0).await?;
                Start::Present
            }
            WatchFrom::AtLeast(revision) => {
                self.reach_history(revision).await?;
                Start::Present
            }
            WatchFrom::After(revision) => {
                self.reach_history(revision).await?;
                Start::After(revision)
            }
            WatchFrom::Now => {
                self.catch_up().await?;
                Start::After(self.cache.revision())
            }
        };
        let mut subscription = self.cache.subscribe(scope, projection.field(), start)?;
        let received = std::mem::take(&mut subscription.backlog).into();
        Ok(Box::new(Watch {
            registry: self.clone(),
            projection,
            subscription,
            with_present: start == Start::Present,
            received,
        }))
    }

    /// Waits until the cache shows a revision of the store's history.
    async fn reach_history(&self, revision: i64) -> Result<(), ApiError> {
        if let Some(newest) = self.short_of(revision).await? {
            let message = format!("too large resource version: {revision}, current: {newest}: list again");
            return Err(ApiError::status(Reason::Expired, message));
        }
        self.wait_for(revision).await
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::cache::testing::entry;

    /// Sees the objects whose key `seen` is `yes`.
    struct Yes;

    impl Projection<ConfigMap> for Yes {
        fn see(&self, entry: &Arc<Entry<ConfigMap>>) -> Result<Option<Arc<dyn Item>>, ApiError> {
            let object = entry.object()?;
            let seen =
                object.data.as_ref().is_some_and(|data| data.get("seen").is_some_and(|seen| seen == "yes"));
            Ok(seen.then(|| entry.clone() as Arc<dyn Item>))
        }

        fn narrows(&self) -> bool {
            true
        }
    }

    fn object(seen: &str, revision: i64) -> Arc<Entry<ConfigMap>> {
        let data = Some([("seen".to_owned(), seen.to_owned())].into());
        entry("n/a", revision, ConfigMap { data, ..ConfigMap::default() })
    }

    #[test]
    fn entering_and_leaving_the_view_are_additions_and_deletions() {
        let cases = [
            (None, Some("yes"), Some(EventType::Added)),
            (None, Some("no"), None),
            (Some("yes"), Some("yes"), Some(EventType::Modified)),
            (Some("no"), Some("yes"), Some(EventType::Added)),
            (Some("yes"), Some("no"), Some(EventType::Deleted)),
            (Some("no"), Some("no"), None),
            (Some("yes"), None, Some(EventType::Deleted)),
            (Some("no"), None, None),
        ];
        for (previous, current, expected) in cases {
            let previous = previous.map(|seen| object(seen, 1));
            let current = current.map(|seen| object(seen, 2));
            let change = Change::new(2, "n/a".into(), current, previous);
            let event = transition(&Yes, &change).expect("objects can be decoded");
            assert_eq!(event.as_ref().map(|event| event.event_type), expected);
            if let Some(event) = event {
                let item = event.item.decoded().expect("an object");
                assert_eq!(item.metadata().resource_version.as_deref(), Some("2"), "the change's revision");
            }
        }
    }
}
