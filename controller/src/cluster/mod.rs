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

mod backoff;
mod calls;
mod clock;
mod events;
mod feature;
mod features;
mod index;
mod key;
mod lease;
mod metrics;
mod queue;
mod reachability;
mod readiness;
mod term;
#[cfg(test)]
pub(crate) mod testing;
mod view;
mod watch;
mod workers;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use chrono::{DateTime, Utc};
use kube::Client;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub(crate) use backoff::backoff;
pub(crate) use calls::{CallError, call, evacuations};
pub(crate) use clock::{ServerClock, due};
pub(crate) use events::{EventSink, Notice, publish_events};
pub(crate) use feature::{ClusterEvent, Feature, Kind, Requeue, WorkerSettings};
pub(crate) use features::Features;
pub(crate) use index::{
    Change, Index, TargetPod, controller_of, is_finished, node_name, pod_key, prune_pod, silent_since,
};
pub(crate) use key::ObjectKey;
pub(crate) use lease::{Leadership, NotLeading, hold_lease};
pub(crate) use metrics::{ClusterMetrics, Label, Probe, required_names, serve_metrics};
pub(crate) use queue::WorkQueue;
pub(crate) use reachability::Reachability;
pub(crate) use readiness::Readiness;
pub(crate) use term::Term;
pub(crate) use view::View;
pub(crate) use watch::{follow_kinds, probe};
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
    pub(crate) features: Arc<Features>,
    pub(crate) clock: Arc<ServerClock>,
    pub(crate) reachability: Arc<Reachability>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) events: EventSink,
    pub(crate) metrics: Arc<ClusterMetrics>,
    pub(crate) term: Arc<Term>,
}

impl Cluster {
    /// Returns the handles of a process that knows nothing of the cluster yet.
    pub(crate) fn new(client: Client, leadership: Leadership, events: EventSink) -> Self {
        let features = Arc::new(Features::default());
        Self {
            client,
            leadership,
            view: Arc::new(View::new(Arc::clone(&features))),
            features,
            clock: Arc::default(),
            reachability: Arc::new(Reachability::new(Instant::now())),
            readiness: Arc::default(),
            metrics: Arc::new(ClusterMetrics::new(&events)),
            events,
            term: Arc::default(),
        }
    }

    /// Begins to act. `term` ends what is in progress when this process may no longer act.
    pub(crate) fn begin_term(&self, term: CancellationToken) {
        self.term.begin(term);
        self.metrics.leader.set(1);
        self.features.resync();
    }

    /// Makes the features forget what only a leader knows.
    pub(crate) fn end_term(&self) {
        self.metrics.leader.set(0);
        self.features.end_term();
    }

    /// Records that the API answered at `received` a request that was sent at `sent`, with the server's time
    /// if the answer carried it.
    pub(crate) fn api_answered(&self, time: Option<DateTime<Utc>>, sent: Instant, received: Instant) {
        if time.is_some_and(|time| self.clock.set(time, sent, received)) {
            info!(now = %self.clock.now(), "the API server's clock shows another time");
            self.features.resync();
        }
        if self.reachability.succeeded(received) {
            info!("the API is back: nothing expires for a while");
            #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^52")]
            self.metrics.recovered.set(self.clock.now().timestamp() as f64);
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
