//! The parts of the cluster view that are known already, and the watches that fail.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
    time::Duration,
};

use chrono::{DateTime, Utc};
use evacuation_api::Blindness;
use evacuation_protocol::LEADERLESS;
use kube::{core::Status, runtime::watcher};
use tokio::{sync::watch, time::Instant};

use super::{Kind, lock};

/// Time after its last failure at which a watch counts as resumed. The next failure would come within two
/// seconds, and the success shows only once an object changes.
const RESUMED: Duration = Duration::from_secs(5);
/// Beginning of the names of watches.
const WATCH_OF: &str = "watch of ";

/// The names of the kinds that were listed, and of what else must be known before the controller acts. The
/// failures of watches since their last success.
#[derive(Debug)]
pub(crate) struct Readiness {
    known: watch::Sender<BTreeSet<&'static str>>,
    failing: Mutex<BTreeMap<&'static str, Failing>>,
}

/// The failures of one watch since its last success.
#[derive(Clone, Debug)]
struct Failing {
    /// The first failure, by the API server's clock.
    since: DateTime<Utc>,
    /// The same by the monotonic clock.
    first: Instant,
    last: Instant,
    failure: WatchFailure,
}

/// A failure of a watch that hides a kind from the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchFailure {
    /// True for a list. Until the next success no watch begins.
    is_list: bool,
    reason: String,
}

impl WatchFailure {
    /// Returns the failure of the watch of a kind. `None` for one that belongs to an outage: of the
    /// kube-apiserver, in which no lease is renewed, or of the evacuation API, which its probes show to all.
    pub(crate) fn of(kind: Kind, error: &watcher::Error) -> Option<Self> {
        let reason = match error {
            watcher::Error::WatchError(status) => reason(kind, status)?,
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => match error {
                kube::Error::Api(status) => reason(kind, status)?,
                kube::Error::SerdeError(_) => "UnreadableReply",
                _ => return None,
            },
            watcher::Error::NoResourceVersion => "UnreadableReply",
        };
        let is_list = matches!(error, watcher::Error::InitialListFailed(_));
        Some(Self { is_list, reason: reason.to_owned() })
    }
}

/// Returns the reason of a refusal. The evacuation API replies with other codes than 403 while it is down.
fn reason(kind: Kind, status: &Status) -> Option<&str> {
    let counts = !kind.is_own() || status.code == 403;
    counts.then_some(if status.reason.is_empty() { "Unknown" } else { &status.reason })
}

impl Failing {
    /// Returns true when the failures have lasted for longer than is noise, and are not over.
    fn blinds(&self, now: Instant) -> bool {
        let is_over = !self.failure.is_list && now >= self.last + RESUMED;
        now >= self.first + LEADERLESS && !is_over
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Self { known: watch::channel(BTreeSet::new()).0, failing: Mutex::default() }
    }
}

impl Readiness {
    /// Records that the part of that name is known.
    pub(crate) fn set(&self, name: &'static str) {
        self.known.send_if_modified(|known| known.insert(name));
    }

    /// Waits until every part of those names is known.
    pub(crate) async fn wait(&self, names: &[&'static str]) {
        // The sender lives as long as this value.
        let _ = self.known.subscribe().wait_for(|known| names.iter().all(|name| known.contains(name))).await;
    }

    /// Returns the names that are not known yet.
    pub(crate) fn missing(&self, names: impl IntoIterator<Item = &'static str>) -> Vec<&'static str> {
        let known = self.known.borrow();
        names.into_iter().filter(|name| !known.contains(name)).collect()
    }

    /// Records a failure of the watch of that name. It is `time` by the API server's clock.
    pub(crate) fn failed(&self, name: &'static str, failure: WatchFailure, time: DateTime<Utc>) {
        let now = Instant::now();
        let mut failing = lock(&self.failing);
        match failing.get_mut(name) {
            Some(known) if known.failure.is_list || now < known.last + RESUMED => {
                (known.last, known.failure) = (now, failure);
            }
            _ => drop(failing.insert(name, Failing { since: time, first: now, last: now, failure })),
        }
    }

    /// Records that the watch of that name works.
    pub(crate) fn works(&self, name: &'static str) {
        lock(&self.failing).remove(name);
    }

    /// Returns what the controller of that identity says in its lease, which has `recorded` so far: which of
    /// the watches of those names have failed for 30 s.
    ///
    /// A new process that has not listed all of them takes over what its predecessor said: a restart shows
    /// nothing before 30 s, and ends no blindness.
    pub(crate) fn statement(
        &self,
        names: &[&'static str],
        holder: &str,
        recorded: Option<Blindness>,
    ) -> Option<Blindness> {
        let waits = !self.missing(names.iter().copied()).is_empty();
        let taken_over = || recorded.filter(|_| waits);
        let said = self.blindness(names).or_else(taken_over)?;
        Some(Blindness { holder: holder.to_owned(), waits, ..said })
    }

    /// Returns which of the watches of those names have failed for 30 s.
    pub(crate) fn blindness(&self, names: &[&'static str]) -> Option<Blindness> {
        let now = Instant::now();
        let failing = lock(&self.failing);
        let blind = || failing.iter().filter(|(name, it)| names.contains(name) && it.blinds(now));
        let (_, first) = blind().min_by_key(|(_, it)| it.since)?;
        Some(Blindness {
            holder: String::new(),
            kinds: blind().map(|(name, _)| name.strip_prefix(WATCH_OF).unwrap_or(name).to_owned()).collect(),
            since: first.since.into(),
            reason: first.failure.reason.clone(),
            waits: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const PODS: &str = "watch of pods";
    const NODES: &str = "watch of nodes";

    fn status(code: u16, reason: &str) -> Box<Status> {
        Status::failure("", reason).with_code(code).boxed()
    }

    fn list_failed(code: u16, reason: &str) -> watcher::Error {
        watcher::Error::InitialListFailed(kube::Error::Api(status(code, reason)))
    }

    fn watch_failed() -> watcher::Error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status(403, "Forbidden")))
    }

    fn fails(readiness: &Readiness, name: &'static str, error: &watcher::Error) {
        let failure = WatchFailure::of(Kind::Pods, error).unwrap();
        readiness.failed(name, failure, DateTime::UNIX_EPOCH);
    }

    fn kinds(readiness: &Readiness) -> Vec<String> {
        readiness.blindness(&[PODS, NODES]).map(|blind| blind.kinds).unwrap_or_default()
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_is_hidden_once_its_list_has_failed_for_30_s_and_until_it_works() {
        let readiness = Readiness::default();
        fails(&readiness, PODS, &list_failed(403, "Forbidden"));
        advance(Duration::from_secs(29)).await;
        fails(&readiness, NODES, &list_failed(500, "InternalError"));
        assert_eq!(readiness.statement(&[PODS, NODES], "c-0", None), None);
        // The next list hangs.
        advance(Duration::from_secs(1)).await;
        let expected = Blindness {
            holder: "c-0".to_owned(),
            kinds: vec!["pods".to_owned()],
            since: DateTime::UNIX_EPOCH.into(),
            reason: "Forbidden".to_owned(),
            waits: true,
        };
        assert_eq!(readiness.statement(&[PODS, NODES], "c-0", None), Some(expected.clone()));
        readiness.set(NODES);
        readiness.set(PODS);
        let acts = Blindness { waits: false, ..expected };
        assert_eq!(readiness.statement(&[PODS, NODES], "c-0", None), Some(acts));
        advance(Duration::from_secs(29)).await;
        assert_eq!(kinds(&readiness), ["nodes", "pods"]);
        assert_eq!(readiness.blindness(&["watch of replicasets"]), None, "no feature needs them");
        readiness.works(PODS);
        assert_eq!(kinds(&readiness), ["nodes"]);
    }

    #[test]
    fn a_restart_ends_no_blindness_before_all_kinds_are_listed() {
        let readiness = Readiness::default();
        let before = Blindness {
            holder: "c-0".to_owned(),
            kinds: vec!["pods".to_owned()],
            since: DateTime::UNIX_EPOCH.into(),
            reason: "Forbidden".to_owned(),
            waits: false,
        };
        readiness.set(NODES);
        let said = readiness.statement(&[PODS, NODES], "c-1", Some(before.clone()));
        let taken_over = Blindness { holder: "c-1".to_owned(), waits: true, ..before.clone() };
        assert_eq!(said, Some(taken_over));
        readiness.set(PODS);
        assert_eq!(readiness.statement(&[PODS, NODES], "c-1", Some(before)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_stops_failing_was_resumed() {
        let readiness = Readiness::default();
        for _ in 0..20 {
            fails(&readiness, PODS, &watch_failed());
            advance(Duration::from_secs(2)).await;
        }
        assert_eq!(kinds(&readiness), ["pods"], "each attempt fails");
        advance(RESUMED).await;
        assert_eq!(kinds(&readiness), [""; 0]);
        fails(&readiness, PODS, &watch_failed());
        assert_eq!(kinds(&readiness), [""; 0], "another failure, much later");
    }

    #[test]
    fn an_outage_hides_nothing_and_a_missing_right_or_an_unreadable_reply_does() {
        let reason = |kind, error| WatchFailure::of(kind, &error).map(|failure| failure.reason);
        for kind in [Kind::Evacuations, Kind::NodeEvacuations, Kind::NodeEvacuationRules] {
            assert_eq!(reason(kind, list_failed(503, "ServiceUnavailable")), None);
            assert_eq!(reason(kind, list_failed(404, "NotFound")), None);
            assert_eq!(reason(kind, watch_failed()).as_deref(), Some("Forbidden"));
        }
        assert_eq!(reason(Kind::Pods, list_failed(500, "InternalError")).as_deref(), Some("InternalError"));
        assert_eq!(reason(Kind::Pods, watcher::Error::NoResourceVersion).as_deref(), Some("UnreadableReply"));
        let lost = kube::Error::ReadEvents(std::io::Error::other("reset"));
        assert_eq!(reason(Kind::Pods, watcher::Error::WatchFailed(lost)), None);
    }
}
