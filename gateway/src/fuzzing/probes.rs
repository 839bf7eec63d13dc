//! The gateway's probes of the evacuation API and of the controller's lease, in a played world.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use evacuation_protocol::{LeaseAge, Outage, OutageSpan, Proof, Reachability};

/// The gateway's probes.
#[derive(Clone, Debug)]
pub(super) struct Probes {
    /// Start of the sequence, by both clocks.
    start: (Instant, DateTime<Utc>),
    reachability: Reachability,
    lease: LeaseAge,
    span: OutageSpan,
}

impl Probes {
    pub(super) fn new(start: DateTime<Utc>) -> Self {
        let now = Instant::now();
        let (reachability, lease) = (Reachability::new(now), LeaseAge::default());
        Self { start: (now, start), reachability, lease, span: OutageSpan::default() }
    }

    fn moment(&self, now: DateTime<Utc>) -> Instant {
        let (instant, time) = self.start;
        instant + (now - time).to_std().unwrap_or(Duration::ZERO)
    }

    /// Probes once, as at each second.
    pub(super) fn probe(&mut self, api_away: bool, leaderless: Option<DateTime<Utc>>, now: DateTime<Utc>) {
        let moment = self.moment(now);
        self.reachability.probed((!api_away).then_some(Proof::TakesWrites), moment);
        self.lease.read(Some(leaderless.unwrap_or(now)), None, moment);
        self.span.seen(self.cause(now, true), moment, now);
    }

    /// Returns the outage, if there is one. Without `lease`, the age of the controller's lease is left out.
    pub(super) fn outage(&self, now: DateTime<Utc>, lease: bool) -> Option<Outage> {
        let mut span = self.span;
        span.seen(self.cause(now, lease), self.moment(now), now)
    }

    /// Returns the outage by the causes that last now.
    fn cause(&self, now: DateTime<Utc>, lease: bool) -> Option<Outage> {
        let moment = self.moment(now);
        let api = self.reachability.outage_since(moment).map(|since| now - (moment - since));
        let leaderless = self.lease.leaderless_since(moment, now).filter(|_| lease);
        Outage::of(api, leaderless)
    }
}
