//! Outages: what the probes of the evacuation API and the reads of the controller's lease show.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use chrono::{DateTime, Utc};
use evacuation_protocol::{LeaseAge, Outage, Proof, Reachability};
use machinery_client::ServerClock;

/// Record of the probes, by this process's monotonic clock.
#[derive(Debug)]
pub(crate) struct Outages {
    seen: Mutex<(Reachability, LeaseAge)>,
    clock: ServerClock,
}

impl Default for Outages {
    fn default() -> Self {
        let seen = Mutex::new((Reachability::new(Instant::now()), LeaseAge::default()));
        Self { seen, clock: ServerClock::default() }
    }
}

impl Outages {
    /// Returns a record whose last proof of a write is from that moment.
    #[cfg(test)]
    pub(crate) fn since(moment: Instant) -> Self {
        let seen = Mutex::new((Reachability::new(moment), LeaseAge::default()));
        Self { seen, clock: ServerClock::default() }
    }

    /// Records the end of a probe of the evacuation API: the proof of its reply, if there was one.
    pub(crate) fn probed(&self, proof: Option<Proof>, now: Instant) {
        self.lock().0.probed(proof, now);
    }

    /// Takes in the time of the server that a reply carries.
    pub(crate) fn told(&self, time: DateTime<Utc>, sent: Instant, received: Instant) {
        // Nothing here waits for a time.
        let _ = self.clock.set(time, sent, received);
    }

    /// Returns the time by the clock of the API server, whose times the decisions compare.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Records a read of the controller's lease: its `renewTime`, or `None` when there is no lease.
    pub(crate) fn lease_read(&self, renewed: Option<DateTime<Utc>>, now: Instant) {
        self.lock().1.read(renewed, now);
    }

    /// Returns the outage that lasts at `time`, if there is one.
    pub(crate) fn current(&self, time: DateTime<Utc>) -> Option<Outage> {
        let now = Instant::now();
        let (reachability, lease) = &*self.lock();
        let api = reachability.outage_since(now).map(|since| time - now.saturating_duration_since(since));
        Outage::of(api, lease.leaderless_since(now, time))
    }

    fn lock(&self) -> MutexGuard<'_, (Reachability, LeaseAge)> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn the_time_is_that_of_the_api_server_and_not_of_this_machine() {
        let outages = Outages::default();
        assert!((outages.now() - Utc::now()).abs() < TimeDelta::minutes(1), "until a reply tells");
        let (server, received) = (Utc::now() - TimeDelta::hours(2), Instant::now());
        outages.told(server, received, received);
        assert!((outages.now() - server).abs() < TimeDelta::minutes(1));
    }
}
