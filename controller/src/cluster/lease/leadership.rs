//! Permission of this process to act.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use chrono::{DateTime, Utc};
use tokio::{sync::watch, time::Instant};

/// This process does not hold the lease, and must not act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not lead")]
pub(crate) struct NotLeading;

/// Record of whether this process holds the lease. Clones share it.
///
/// # Guarantees
///
/// [`Leadership::check`] fails from the moment at which another process could begin to take the lease over,
/// even when the task that renews the lease hangs.
#[derive(Clone, Debug)]
pub(crate) struct Leadership {
    until: Arc<Mutex<Option<Instant>>>,
    leads: Arc<watch::Sender<bool>>,
    predecessor: Arc<Mutex<Option<DateTime<Utc>>>>,
}

impl Leadership {
    /// Of a process that does not lead yet.
    pub(crate) fn standby() -> Self {
        Self { until: Arc::default(), leads: Arc::new(watch::channel(false).0), predecessor: Arc::default() }
    }

    /// Of a process that leads because nobody else is there.
    pub(crate) fn alone() -> Self {
        let leadership = Self::standby();
        // A century: longer than any process runs, and short enough for the clock.
        leadership.hold_until(Instant::now() + Duration::from_hours(100 * 365 * 24));
        leadership
    }

    /// Fails unless this process leads. Every write calls it right before.
    pub(crate) fn check(&self) -> Result<(), NotLeading> {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if until.is_some_and(|until| Instant::now() < until) { Ok(()) } else { Err(NotLeading) }
    }

    /// Follows whether this process leads.
    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }

    /// Time at which the holder before this process last worked, by the API server's clock; `None` when it is
    /// not known.
    pub(crate) fn predecessor(&self) -> Option<DateTime<Utc>> {
        *self.predecessor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_predecessor(&self, worked: Option<DateTime<Utc>>) {
        *self.predecessor.lock().unwrap_or_else(PoisonError::into_inner) = worked;
    }

    pub(super) fn hold_until(&self, until: Instant) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        self.leads.send_if_modified(|leads| !std::mem::replace(leads, true));
    }

    pub(super) fn lose(&self) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.leads.send_if_modified(|leads| std::mem::replace(leads, false));
    }
}
