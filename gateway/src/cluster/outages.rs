//! Outages: what the probes of the evacuation API and the reads of the controller's lease show.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use chrono::{DateTime, Utc};
use evacuation_api::Blindness;
use evacuation_protocol::{LeaseAge, Outage, OutageSpan, Proof, Reachability};
use machinery_client::ServerClock;

/// Record of the probes, by this process's monotonic clock.
#[derive(Debug)]
pub(crate) struct Outages {
    seen: Mutex<Seen>,
    clock: ServerClock,
}

#[derive(Debug)]
struct Seen {
    api: Reachability,
    lease: LeaseAge,
    span: OutageSpan,
}

impl Seen {
    /// Returns a record whose last proof of a write is from that moment.
    fn since(moment: Instant) -> Self {
        Self { api: Reachability::new(moment), lease: LeaseAge::default(), span: OutageSpan::default() }
    }

    /// Returns the outage that lasts now, which is `time` by the API server's clock, if there is one. Each
    /// probe looks for it, so that its start is known also when no call comes.
    fn outage(&mut self, now: Instant, time: DateTime<Utc>) -> Option<Outage> {
        let api = self.api.outage_since(now).map(|since| time - now.saturating_duration_since(since));
        let outage = Outage::of(api, self.lease.leaderless_since(now, time));
        self.span.seen(outage, now, time)
    }
}

impl Default for Outages {
    fn default() -> Self {
        Self { seen: Mutex::new(Seen::since(Instant::now())), clock: ServerClock::default() }
    }
}

impl Outages {
    /// Returns a record whose last proof of a write is from that moment.
    #[cfg(test)]
    pub(crate) fn since(moment: Instant) -> Self {
        Self { seen: Mutex::new(Seen::since(moment)), clock: ServerClock::default() }
    }

    /// Records the end of a probe of the evacuation API: the proof of its reply, if there was one.
    pub(crate) fn probed(&self, proof: Option<Proof>, now: Instant) {
        let mut seen = self.lock();
        seen.api.probed(proof, now);
        seen.outage(now, self.now());
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

    /// Records a read of the controller's lease: its `renewTime`, or `None` when there is no lease, and what
    /// its holder cannot watch. A holder that only cannot see drains acts on what calls wait for.
    pub(crate) fn lease_read(
        &self,
        renewed: Option<DateTime<Utc>>,
        blindness: Option<Blindness>,
        now: Instant,
    ) {
        let mut seen = self.lock();
        seen.lease.read(renewed, blindness.filter(Blindness::stops_negotiation), now);
        seen.outage(now, self.now());
    }

    /// Returns the outage that lasts at `time`, if there is one.
    pub(crate) fn current(&self, time: DateTime<Utc>) -> Option<Outage> {
        self.lock().outage(Instant::now(), time)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use chrono::TimeDelta;
    use evacuation_protocol::OutageCause;

    use super::*;

    #[test]
    fn the_time_is_that_of_the_api_server_and_not_of_this_machine() {
        let outages = Outages::default();
        assert!((outages.now() - Utc::now()).abs() < TimeDelta::minutes(1), "until a reply tells");
        let (server, received) = (Utc::now() - TimeDelta::hours(2), Instant::now());
        outages.told(server, received, received);
        assert!((outages.now() - server).abs() < TimeDelta::minutes(1));
    }

    /// The bound of an answer counts from the start. A call that passed by it would be held again otherwise.
    #[test]
    fn rule_11_an_outage_keeps_its_start_when_the_api_is_back_and_no_controller_leads() {
        let second = Duration::from_secs(1);
        let began = Instant::now().checked_sub(1000 * second).unwrap();
        let outages = Outages::since(began);
        let now = Utc::now();
        for ago in 1..100 {
            let moment = Instant::now().checked_sub((100 - ago) * second).unwrap();
            outages.probed(None, moment);
            outages.lease_read(Some(now - TimeDelta::seconds(90)), None, moment);
        }
        let start = |outages: &Outages| outages.current(now).map(|outage| (outage.cause, now - outage.since));
        let (cause, away) = start(&outages).unwrap();
        assert!(cause == OutageCause::Api && away >= TimeDelta::seconds(1000), "{away}");
        outages.probed(Some(Proof::TakesWrites), Instant::now());
        let (cause, leaderless) = start(&outages).unwrap();
        assert!(cause == OutageCause::Leaderless && leaderless >= TimeDelta::seconds(1000), "{leaderless}");
    }

    #[test]
    fn a_controller_that_cannot_see_pods_counts_as_none_and_one_that_cannot_see_drains_does_not() {
        for (kind, expected) in [("pods", Some(OutageCause::Leaderless)), ("nodeevacuations", None)] {
            let (outages, now) = (Outages::default(), Utc::now());
            let blindness = Blindness {
                holder: "c-0".to_owned(),
                kinds: vec![kind.to_owned()],
                since: (now - TimeDelta::seconds(60)).into(),
                reason: "Forbidden".to_owned(),
                waits: false,
            };
            outages.lease_read(Some(now), Some(blindness), Instant::now());
            assert_eq!(outages.current(now).map(|outage| outage.cause), expected, "{kind}");
        }
    }
}
