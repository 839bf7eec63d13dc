//! The cluster view and the machinery around it: index, watches, clock, lease, work queue, Events and
//! metrics.
//!
//! # Flow
//!
//! Watches and the replies to writes feed the [`View`]. The view tells each [`Feature`] what changed, and the
//! feature queues keys. Workers take the keys from the queue while this process leads, and call
//! [`Feature::reconcile`].
//!
//! # Guarantees
//!
//! This module knows no feature. One worker at a time works on a key of a feature.

mod calls;
mod clock;
mod evacuation_calls;
mod events;
mod feature;
mod features;
mod group_modes;
mod index;
mod key;
mod lease;
mod lister;
mod metrics;
mod probe;
mod queue;
mod readiness;
mod term;
#[cfg(test)]
pub(crate) mod testing;
mod view;
mod watch;
mod workers;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, from_condition_time};
use evacuation_protocol::{Proof, Reachability, is_recent, nobody_led};
use kube::Client;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub(crate) use calls::{
    CallError, all_done, call, evacuation_of, if_readable, is_settled_by_the_watch, read_pod, user_name,
};
pub(crate) use clock::due;
pub(crate) use evacuation_calls::evacuations;
pub(crate) use events::{EventSink, LAST_EVENTS, Notice, publish_events, reporter};
pub(crate) use feature::{ClusterEvent, Feature, Kind, Requeue, WorkerSettings};
pub(crate) use features::Features;
pub(crate) use group_modes::GroupModes;
pub(crate) use index::{
    Change, Comparable, Index, Table, TargetPod, controller_of, group_key, is_finished, node_name, pod_key,
};
pub(crate) use key::ObjectKey;
pub(crate) use lease::{Leadership, NotLeading, Writer, hold_lease};
pub(crate) use lister::Lister;
pub(crate) use machinery_client::ServerClock;
pub(crate) use metrics::{ClusterMetrics, Label, Probe, required_names, serve_metrics};
pub(crate) use probe::probe;
pub(crate) use queue::WorkQueue;
pub(crate) use readiness::Readiness;
pub(crate) use term::Term;
pub(crate) use view::View;
pub(crate) use watch::{Kept, KeptBy, Watched, follow, follow_kinds};
#[cfg(test)]
pub(crate) use workers::Worker;
pub(crate) use workers::{spawn_resync, spawn_workers};

/// The name of the API server's time in `/readyz`.
pub(crate) const CLOCK: &str = "time of the API server";

/// Handles to the parts of the cluster view, from which each feature takes those that it uses. Clones share
/// the parts.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) leadership: Leadership,
    pub(crate) view: Arc<View>,
    pub(crate) lister: Arc<Lister>,
    pub(crate) features: Arc<Features>,
    pub(crate) clock: Arc<ServerClock>,
    /// Shared with the reader of the state around Evacuations.
    pub(crate) reachability: Arc<Mutex<Reachability>>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) events: EventSink,
    pub(crate) metrics: Arc<ClusterMetrics>,
    pub(crate) term: Arc<Term>,
    pub(crate) group_modes: Arc<GroupModes>,
    restart: Arc<Notify>,
}

impl Cluster {
    /// Returns the handles of a process that knows nothing of the cluster yet.
    pub(crate) fn new(client: Client, leadership: Leadership, events: EventSink) -> Self {
        let features = Arc::new(Features::default());
        let view = Arc::new(View::new(Arc::clone(&features)));
        Self {
            group_modes: Arc::new(GroupModes::new(client.clone())),
            lister: Arc::new(Lister::new(client.clone(), Arc::clone(&view))),
            client,
            leadership,
            view,
            features,
            clock: Arc::default(),
            reachability: Arc::new(Mutex::new(Reachability::new(Instant::now()))),
            readiness: Arc::default(),
            metrics: Arc::new(ClusterMetrics::new(&events)),
            events,
            term: Arc::default(),
            restart: Arc::default(),
        }
    }

    /// Returns the client for writes.
    pub(crate) fn writer(&self) -> Writer {
        Writer::new(self.client.clone(), self.leadership.clone())
    }

    /// Begins to act. `term` ends what is in progress when this process may no longer act.
    pub(crate) fn begin_term(&self, term: CancellationToken) {
        self.term.begin(term);
        self.metrics.leader.set(1);
        let now = self.clock.now();
        // A new Evacuation has not waited for a controller yet.
        let waited = |evacuation: &Evacuation| {
            let created = evacuation.metadata.creation_timestamp.as_ref().map(from_condition_time);
            !is_finished(evacuation) && created.is_none_or(|created| !is_recent(created, now))
        };
        let open = self.view.index().evacuations().any(|(_, evacuation)| waited(evacuation));
        if nobody_led(self.leadership.predecessor(), now, open) {
            info!("no controller led for a while: only deadlines act for 30 s");
            self.reachability().recovered(Instant::now());
            self.note_recovery();
        }
        self.features.begin_term();
    }

    /// Ends the present term, if there is one. The next one begins at once, without what the features know.
    pub(crate) fn restart_term(&self) {
        self.restart.notify_waiters();
    }

    /// Waits until the present term is to end and another one to begin.
    pub(crate) async fn term_restarts(&self) {
        self.restart.notified().await;
    }

    /// Makes the features forget what only a leader knows. Until a term begins they keep no keys.
    pub(crate) fn stand_by(&self) {
        self.metrics.leader.set(0);
        self.features.stand_by();
    }

    /// Returns the record of the probes of the API.
    pub(crate) fn reachability(&self) -> MutexGuard<'_, Reachability> {
        lock(&self.reachability)
    }

    /// Records a probe that got no reply of a server that can serve.
    fn api_failed(&self, now: Instant) {
        self.reachability().probed(None, now);
    }

    fn note_recovery(&self) {
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^52")]
        self.metrics.recovered.set(self.clock.now().timestamp() as f64);
    }

    /// Records that the store took writes again that long before `received`, as its server reports. A process
    /// that starts after an outage of the store thus learns of it.
    fn store_recovered(&self, ago: Option<Duration>, received: Instant) {
        if let Some(moment) = ago.and_then(|ago| received.checked_sub(ago)) {
            self.reachability().recovered(moment);
        }
    }

    /// Records a reply that the API gave at `received` to a request sent at `sent`: its proof, and the
    /// server's time if the reply carried it.
    fn api_answered(&self, time: Option<DateTime<Utc>>, proof: Proof, sent: Instant, received: Instant) {
        if time.is_some_and(|time| self.clock.set(time, sent, received)) {
            info!(now = %self.clock.now(), "the API server's clock shows another time");
            self.features.resync();
        }
        self.metrics.clock_skew.set(self.clock.skew().as_secs_f64());
        if self.reachability().probed(Some(proof), received) {
            info!("evacuation API: it takes writes again, only deadlines act for 30 s");
            self.note_recovery();
            self.features.resync();
        }
        if time.is_some() {
            self.readiness.set(CLOCK);
        }
    }
}

/// Locks a mutex whose content is consistent after every single change, so that a panic of another holder
/// does no harm.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use evacuation_api::condition_time;

    use super::{testing::cluster_without_api, *};

    /// Begins a term of a process that knows of no leader before it. Returns true when only deadlines act.
    fn begins_with_a_recovery(created: Option<TimeDelta>) -> bool {
        let cluster = cluster_without_api();
        if let Some(ago) = created {
            let mut evacuation: Evacuation = serde_json::from_value(serde_json::json!({
                "metadata": {"namespace": "ns", "name": "e", "uid": "e1", "resourceVersion": "1"},
                "spec": {"target": {"pod": {"name": "p", "uid": "p1"}}, "requesters": [{"name": "a.b/c"}]},
            }))
            .unwrap();
            evacuation.metadata.creation_timestamp = Some(condition_time(cluster.clock.now() - ago));
            cluster.view.apply(evacuation);
        }
        cluster.begin_term(CancellationToken::new());
        cluster.reachability().recovered_at(Instant::now()).is_some()
    }

    #[tokio::test]
    async fn rule_9_a_controller_that_starts_after_an_outage_of_the_store_learns_of_it() {
        let (cluster, received) = (cluster_without_api(), Instant::now());
        cluster.store_recovered(None, received);
        assert_eq!(cluster.reachability().recovered_at(received), None);
        let ago = Duration::from_secs(1);
        cluster.store_recovered(Some(ago), received + ago);
        assert_eq!(cluster.reachability().recovered_at(received + ago), Some(received));
    }

    #[tokio::test]
    async fn rule_9_a_controller_that_finds_old_evacuations_and_no_leader_before_it_grants_time() {
        assert!(begins_with_a_recovery(Some(TimeDelta::hours(1))), "no controller ran for an hour");
        assert!(!begins_with_a_recovery(Some(TimeDelta::seconds(1))), "it has not waited yet");
        assert!(!begins_with_a_recovery(None), "nothing waits");
    }
}
