//! Outages: what the probes of the evacuation API and the reads of the controller's lease show.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use chrono::{DateTime, Utc};
use evacuation_protocol::{LeaseAge, Outage, Proof, Reachability};

/// Record of the probes, by this process's monotonic clock.
#[derive(Debug)]
pub(crate) struct Outages(Mutex<(Reachability, LeaseAge)>);

impl Default for Outages {
    fn default() -> Self {
        Self(Mutex::new((Reachability::new(Instant::now()), LeaseAge::default())))
    }
}

impl Outages {
    /// Records the end of a probe of the evacuation API: the proof of its reply, if there was one.
    pub(crate) fn probed(&self, proof: Option<Proof>, now: Instant) {
        self.lock().0.probed(proof, now);
    }

    /// Records a read of the controller's lease: its `renewTime`, or `None` when there is no lease.
    pub(crate) fn lease_read(&self, renewed: Option<DateTime<Utc>>, now: Instant) {
        self.lock().1.read(renewed, now);
    }

    /// Returns the outage that lasts at `wall`, if there is one.
    pub(crate) fn current(&self, wall: DateTime<Utc>) -> Option<Outage> {
        let now = Instant::now();
        let (reachability, lease) = &*self.lock();
        let api = reachability.outage_since(now).map(|since| wall - now.saturating_duration_since(since));
        Outage::of(api, lease.leaderless_since(now, wall))
    }

    fn lock(&self) -> MutexGuard<'_, (Reachability, LeaseAge)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
