//! The controller's lease: a warning for every caller while no controller acts.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::Blindness;
use evacuation_protocol::{LeaseAge, NO_CONTROLLER, lease_renewed};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::time::{MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;

/// Interval between two reads of the lease.
const INTERVAL: Duration = Duration::from_secs(5);
/// Maximum time of a read.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Watch over the controller's lease.
///
/// A lease that cannot be read says nothing, so that a kube-apiserver that is down brings no warning. A
/// holder that cannot watch works no more than one that does not renew the lease.
#[derive(Debug)]
pub struct Leader {
    namespace: String,
    name: String,
    age: Mutex<LeaseAge>,
    shutdown: CancellationToken,
}

impl Leader {
    /// Reads that lease every 5 s until the shutdown.
    pub fn start(client: &Client, namespace: &str, name: &str, shutdown: CancellationToken) -> Arc<Self> {
        let leader = Arc::new(Self::new(namespace, name, shutdown.clone()));
        let api = Api::namespaced(client.clone(), namespace);
        tokio::spawn(shutdown.run_until_cancelled_owned(Arc::clone(&leader).watch(api)));
        leader
    }

    fn new(namespace: &str, name: &str, shutdown: CancellationToken) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), age: Mutex::default(), shutdown }
    }

    /// The end of the watch.
    pub(crate) fn shutdown(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    async fn watch(self: Arc<Self>, api: Api<Lease>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Ok(Ok(lease)) = timeout(TIMEOUT, api.get_opt(&self.name)).await {
                let lease = lease.as_ref();
                let blindness = lease.and_then(Blindness::of);
                self.read(lease.and_then(lease_renewed), blindness, Instant::now());
            }
        }
    }

    fn read(&self, renewed: Option<DateTime<Utc>>, blindness: Option<Blindness>, now: Instant) {
        self.age.lock().unwrap_or_else(PoisonError::into_inner).read(renewed, blindness, now);
    }

    /// Returns the warning for callers while no controller acts.
    pub fn warning(&self) -> Option<String> {
        self.warning_at(Instant::now(), Utc::now())
    }

    /// Returns the words of an outage, without times that pass. `None` while a controller acts,
    /// and when the lease cannot be read.
    pub fn outage(&self) -> Option<String> {
        self.told(Instant::now(), Utc::now(), stamp)
    }

    fn warning_at(&self, now: Instant, wall: DateTime<Utc>) -> Option<String> {
        self.told(now, wall, |since| format!("{} ({} ago)", stamp(since), words_of(wall - since)))
    }

    /// Returns the words of an outage, with its start as `shown`.
    fn told(
        &self,
        now: Instant,
        wall: DateTime<Utc>,
        shown: impl Fn(DateTime<Utc>) -> String,
    ) -> Option<String> {
        let Self { namespace, name, .. } = self;
        let age = self.age.lock().unwrap_or_else(PoisonError::into_inner);
        if !age.is_current(now) {
            return None;
        }
        if let Some(since) = age.unrenewed_since(now, wall) {
            return Some(format!(
                "{NO_CONTROLLER}: the lease {namespace}/{name} was last renewed at {}. Until one works, nothing \
                 is asked, evicted or withdrawn. Look at: kubectl evacuate check",
                shown(since)
            ));
        }
        let blindness = age.blindness()?;
        Some(format!(
            "{NO_CONTROLLER}: {}. Look at: kubectl evacuate check",
            blindness.statement(&shown(blindness.since.0))
        ))
    }
}

fn stamp(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns an age as kubectl prints it.
fn words_of(age: TimeDelta) -> String {
    match age.num_seconds().max(0) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_warned_once_the_lease_has_been_old_for_long_enough() {
        let (start, wall) = (Instant::now(), DateTime::from_timestamp(1_767_225_600, 0).expect("a time"));
        let leader = Leader::new("evacuation-system", "evacuation-controller", CancellationToken::new());
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let warning = |seconds: u32| {
            leader.warning_at(after(seconds.into()), wall + Duration::from_secs(seconds.into()))
        };
        assert_eq!(warning(0), None);
        // One read has failed.
        for second in [0, 5, 10, 20, 25, 30] {
            leader.read(Some(wall), None, after(second));
        }
        assert_eq!(warning(30), None);
        leader.read(Some(wall), None, after(35));
        let text = warning(58).expect("a warning");
        assert!(
            text.contains(
                "lease evacuation-system/evacuation-controller was last renewed at 2026-01-01T00:00:00Z (58 s ago)"
            ),
            "{text}"
        );
        // Only administrators may read the Deployments.
        assert!(text.ends_with(". Look at: kubectl evacuate check"), "{text}");
        assert!(text.len() <= 240, "a reply cuts longer warnings: {text}");
        leader.read(Some(wall + Duration::from_mins(1)), None, after(60));
        assert_eq!(warning(60), None);
    }

    #[test]
    fn callers_are_warned_of_a_controller_that_renews_its_lease_and_cannot_watch() {
        let (now, wall) = (Instant::now(), DateTime::from_timestamp(1_767_225_600, 0).expect("a time"));
        let leader = Leader::new("evacuation-system", "evacuation-controller", CancellationToken::new());
        let blindness = Blindness {
            holder: "c-0".to_owned(),
            kinds: ["nodeevacuationrules", "nodeevacuations", "nodes", "poddisruptionbudgets", "pods"]
                .map(str::to_owned)
                .into(),
            since: wall.into(),
            reason: "Forbidden".to_owned(),
            waits: false,
        };
        let later = wall + TimeDelta::minutes(4);
        leader.read(Some(later), Some(blindness), now);
        let warning = leader.warning_at(now, later).expect("a warning");
        assert_eq!(
            warning,
            "no controller works on evacuations: the controller has been unable to list or watch \
             nodeevacuationrules, nodeevacuations, nodes and 2 other kinds since 2026-01-01T00:00:00Z (4 min ago): \
             Forbidden. Look at: kubectl evacuate check"
        );
        assert!(warning.len() <= 256, "a reply cuts longer warnings");
        assert!(leader.outage().is_some_and(|outage| !outage.contains(" ago)")), "it stays the same");
        leader.read(Some(later), None, now);
        assert_eq!(leader.warning_at(now, later), None);
    }
}
