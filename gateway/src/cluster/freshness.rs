//! Age of a cache that a watch keeps up.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Time after an event in which a cache counts as current.
///
/// The events of a watch come in order, so each one shows that no earlier change is on its way. A cluster in
/// which pods change all the time has an event in nearly every such time. In a quiet one a read costs little.
const FRESH: Duration = Duration::from_secs(2);

/// Time of the last event of a watch.
#[derive(Debug, Default)]
pub(super) struct Freshness(Mutex<Option<Instant>>);

impl Freshness {
    /// Notes that the watch has delivered an event.
    pub(super) fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Returns true when the watch has delivered an event within [`FRESH`].
    pub(super) fn is_fresh(&self) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() < FRESH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cache_is_fresh_for_a_moment_after_each_event() {
        let freshness = Freshness::default();
        assert!(!freshness.is_fresh());
        freshness.note();
        assert!(freshness.is_fresh());
        tokio::time::advance(FRESH).await;
        assert!(!freshness.is_fresh());
        freshness.note();
        assert!(freshness.is_fresh());
    }
}
