//! Rules of the leader election, without I/O.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use tokio::time::Instant;

/// For how long a lease holds after its last renewal, in seconds.
pub(super) const DURATION_SECONDS: i32 = 15;

/// Next step of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Take the lease, or renew it, by writing this in place of what was read.
    Write(Box<Lease>),
    /// Somebody else holds it.
    Wait,
}

/// One candidate. It compares no clocks of other machines: a lease has run out when it was not seen to change
/// for its duration, as in client-go's leader election.
#[derive(Debug)]
pub(super) struct Election {
    identity: String,
    seen: Option<(LeaseSpec, Instant)>,
}

impl Election {
    pub(super) fn new(identity: String) -> Self {
        Self { identity, seen: None }
    }

    /// Next step after a lease was read.
    pub(super) fn step(&mut self, lease: Lease, now: Instant, wall: Timestamp) -> Step {
        let spec = lease.spec.clone().unwrap_or_default();
        let seen_at = match &self.seen {
            Some((seen, at)) if *seen == spec => *at,
            _ => now,
        };
        let duration = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
        let free = spec.holder_identity.as_deref().unwrap_or_default().is_empty();
        let ours = self.holds(&lease);
        let ran_out = now >= seen_at + Duration::from_secs(duration);
        self.seen = Some((spec, seen_at));
        if free || ours || ran_out { Step::Write(Box::new(self.written(lease, wall))) } else { Step::Wait }
    }

    /// Returns true when a lease names this candidate.
    pub(super) fn holds(&self, lease: &Lease) -> bool {
        lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(self.identity.as_str())
    }

    /// A lease that does not exist yet, held by this candidate.
    pub(super) fn created(&self, name: &str, wall: Timestamp) -> Lease {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        self.written(Lease { metadata, spec: None }, wall)
    }

    /// The lease, held by this candidate.
    fn written(&self, mut lease: Lease, wall: Timestamp) -> Lease {
        let ours = self.holds(&lease);
        let old = lease.spec.take().unwrap_or_default();
        let changed = i32::from(!ours && old.acquire_time.is_some());
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(DURATION_SECONDS),
            acquire_time: old.acquire_time.filter(|_| ours).or(Some(MicroTime(wall))),
            renew_time: Some(MicroTime(wall)),
            lease_transitions: Some(old.lease_transitions.unwrap_or(0).saturating_add(changed)),
            ..old
        });
        lease
    }

    /// The lease, given back.
    pub(super) fn released(mut lease: Lease, wall: Timestamp) -> Lease {
        let old = lease.spec.take().unwrap_or_default();
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            renew_time: Some(MicroTime(wall)),
            ..old
        });
        lease
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn written(step: Step) -> Lease {
        match step {
            Step::Write(lease) => *lease,
            Step::Wait => panic!("waits"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_of_another_is_taken_when_it_did_not_change_for_its_duration() {
        let now = Instant::now();
        let held = Election::new("a".into()).created("lease", wall(0));
        let mut b = Election::new("b".into());
        // The other's clock is an hour ahead; it does not matter.
        assert_eq!(b.step(held.clone(), now, wall(-3600)), Step::Wait);
        assert_eq!(b.step(held.clone(), now + Duration::from_secs(14), wall(-3586)), Step::Wait);
        let taken = written(b.step(held, now + Duration::from_secs(15), wall(-3585)));
        let spec = taken.spec.clone().unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some("b"));
        assert_eq!(spec.lease_transitions, Some(1));
        assert!(b.holds(&taken));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_renewed_is_left_alone() {
        let now = Instant::now();
        let mut a = Election::new("a".into());
        let mut b = Election::new("b".into());
        let mut lease = a.created("lease", wall(0));
        for seconds in (0..60).step_by(5) {
            let at = now + Duration::from_secs(seconds);
            lease = written(a.step(lease, at, wall(i64::try_from(seconds).unwrap())));
            assert_eq!(b.step(lease.clone(), at, wall(0)), Step::Wait);
        }
        assert_eq!(lease.spec.unwrap().lease_transitions, Some(0), "a renewal is no transition");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_given_back_is_taken_at_once() {
        let now = Instant::now();
        let held = Election::new("a".into()).created("lease", wall(0));
        let mut b = Election::new("b".into());
        assert_eq!(b.step(held.clone(), now, wall(0)), Step::Wait);
        let released = Election::released(held, wall(1));
        assert!(matches!(b.step(released, now, wall(1)), Step::Write(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn taking_a_lease_keeps_the_version_that_was_read() {
        let mut lease = Election::released(Election::new("a".into()).created("lease", wall(0)), wall(1));
        lease.metadata.resource_version = Some("7".into());
        let taken = written(Election::new("b".into()).step(lease, Instant::now(), wall(2)));
        assert_eq!(taken.metadata.resource_version.as_deref(), Some("7"), "of two candidates only one wins");
    }
}
