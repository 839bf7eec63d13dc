//! Watches.

use std::{collections::VecDeque, sync::Arc};

use async_trait::async_trait;

use super::{Registry, lens::Lens};
use crate::{
    ApiError, Object, Reason, Strategy,
    cache::{Change, Scope, Start, Subscription},
    stored::Item,
};

/// Size of the changes that are handed over at once, about: a client that reads slowly keeps little more in memory.
const BATCH_BYTES: usize = 64 * 1024;

/// Where a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchFrom {
    /// With the newest state, then its changes.
    Newest,
    /// With whatever state is at hand.
    Any,
    /// With the state of a revision or a later one.
    AtLeast(i64),
    /// With the changes after a revision.
    After(i64),
    /// With the changes from now on.
    Now,
}

/// What happened to an object, as the watcher sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A watch under way, of any kind.
#[async_trait]
pub(crate) trait Watching: Send {
    /// The objects at the start, and the revision that they show; once, before anything else. `None` when the
    /// watch starts with changes.
    fn present(&mut self) -> Option<(Vec<WatchEvent>, i64)>;

    /// The next events, at least one; `None` when the watch was ended because its reader was too slow or the cache had to
    /// be filled anew. Nothing is lost when the call is dropped.
    async fn next(&mut self) -> Option<Vec<WatchEvent>>;

    /// The events that are waiting, and the revision up to which nothing else happened; no revision when the watch was left
    /// behind and does not know.
    fn drain(&mut self) -> (Vec<WatchEvent>, Option<i64>);
}

struct Watch<S: Strategy> {
    registry: Arc<Registry<S>>,
    lens: Box<dyn Lens<S::Object>>,
    subscription: Subscription<S::Object>,
    with_present: bool,
    /// Changes that were received and not yet handed over.
    received: VecDeque<Arc<Change<S::Object>>>,
}

#[async_trait]
impl<S: Strategy> Watching for Watch<S> {
    fn present(&mut self) -> Option<(Vec<WatchEvent>, i64)> {
        if !std::mem::take(&mut self.with_present) {
            return None;
        }
        let present = std::mem::take(&mut self.subscription.present);
        let events = present.iter().filter_map(|stored| self.lens.see(stored));
        let events = events.map(|item| WatchEvent { event_type: EventType::Added, item }).collect();
        Some((events, self.subscription.revision))
    }

    async fn next(&mut self) -> Option<Vec<WatchEvent>> {
        loop {
            let events = self.take();
            if !events.is_empty() {
                return Some(events);
            }
            if self.received.is_empty() {
                self.received.push_back(self.subscription.changes.recv().await?);
                self.subscription.take_waiting(&mut self.received, BATCH_BYTES);
            }
        }
    }

    fn drain(&mut self) -> (Vec<WatchEvent>, Option<i64>) {
        // The revision first: what is told up to it is in the channel by now.
        let revision = self.registry.cache.revision().max(self.subscription.revision);
        let whole = self.subscription.take_waiting(&mut self.received, BATCH_BYTES);
        let newest = self.received.back().map_or(0, |change| change.revision);
        let events = self.take();
        // A watch that was left behind, or has more to tell, misses what comes after its last change: it knows no revision up to which it
        // is whole.
        (events, (whole && self.received.is_empty()).then_some(revision.max(newest)))
    }
}

impl<S: Strategy> Watch<S> {
    /// The events of the changes that were received, up to the size of a batch.
    fn take(&mut self) -> Vec<WatchEvent> {
        let (mut events, mut size) = (Vec::new(), 0);
        while size < BATCH_BYTES
            && let Some(change) = self.received.pop_front()
        {
            size += change.size();
            events.extend(transition(self.lens.as_ref(), &change));
        }
        events
    }
}

/// What a change means to someone who sees the objects through a lens: an object that comes into view was added, one
/// that goes out of view was deleted.
fn transition<O: Object>(lens: &dyn Lens<O>, change: &Change<O>) -> Option<WatchEvent> {
    let was_seen = || change.previous.as_ref().is_some_and(|previous| lens.see(previous).is_some());
    if let Some(item) = change.current.as_ref().and_then(|current| lens.see(current)) {
        let event_type = if was_seen() { EventType::Modified } else { EventType::Added };
        return Some(WatchEvent { event_type, item });
    }
    let item = was_seen().then(|| change.gone())?.and_then(|gone| lens.see(&gone))?;
    Some(WatchEvent { event_type: EventType::Deleted, item })
}

impl<S: Strategy> Registry<S> {
    /// Starts a watch of what a lens shows of a scope.
    ///
    /// # Errors
    ///
    /// `Expired` when the changes after the revision are no longer known, or when the store itself has not come so far: then its history
    /// was turned back, as by a restored backup, and only a new list tells what is. `Timeout` when only the cache lags behind.
    pub(crate) async fn watch_items(
        self: &Arc<Self>,
        scope: &Scope,
        from: WatchFrom,
        lens: Box<dyn Lens<S::Object>>,
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
        let mut subscription = self.cache.subscribe(scope, start)?;
        let received = std::mem::take(&mut subscription.backlog).into();
        Ok(Box::new(Watch {
            registry: self.clone(),
            lens,
            subscription,
            with_present: start == Start::Present,
            received,
        }))
    }

    /// Waits until the cache has everything up to a revision that belongs to the store's history.
    async fn reach_history(&self, revision: i64) -> Result<(), ApiError> {
        if let Some(newest) = self.short_of(revision).await? {
            let message = format!("too large resource version: {revision}, current: {newest}: list anew");
            return Err(ApiError::status(Reason::Expired, message));
        }
        self.wait_for(revision).await
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::stored::Stored;

    /// Sees the objects whose key `seen` is `yes`.
    struct Yes;

    impl Lens<ConfigMap> for Yes {
        fn see(&self, stored: &Arc<Stored<ConfigMap>>) -> Option<Arc<dyn Item>> {
            let seen =
                stored.data.as_ref().is_some_and(|data| data.get("seen").is_some_and(|seen| seen == "yes"));
            seen.then(|| stored.clone() as Arc<dyn Item>)
        }

        fn narrows(&self) -> bool {
            true
        }
    }

    fn object(seen: &str, revision: i64) -> Arc<Stored<ConfigMap>> {
        let data = Some([("seen".to_owned(), seen.to_owned())].into());
        Arc::new(Stored::new(ConfigMap { data, ..ConfigMap::default() }, revision))
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
            let change = Change::new(2, "n/a".to_owned(), current, previous);
            let event = transition(&Yes, &change);
            assert_eq!(event.as_ref().map(|event| event.event_type), expected);
            if let Some(event) = event {
                assert_eq!(
                    event.item.metadata().resource_version.as_deref(),
                    Some("2"),
                    "the change's revision"
                );
            }
        }
    }
}
