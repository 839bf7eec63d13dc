//! The interface between the cluster view and the features that act on it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use evacuation_api::{Evacuation, NodeEvacuation, NodeEvacuationRule};
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Namespace, Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::core::PartialObjectMeta;
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{CallError, Change, ObjectKey, WorkQueue};

/// One feature of the controller.
///
/// # Flow
///
/// [`handle`](Feature::handle) queues the keys that an event concerns. Workers pass each key to
/// [`reconcile`](Feature::reconcile) while this process leads. While it only stands by, the queue is closed:
/// events are seen, and no key is kept.
///
/// # Guarantees
///
/// Two calls of `reconcile` for one key never overlap. A call that fails is repeated after a growing pause.
/// [`resync`](Feature::resync) is called when this process begins to lead, every few minutes, and after an
/// outage.
#[async_trait]
pub(crate) trait Feature: Send + Sync + 'static {
    /// Name of the feature in log lines.
    fn name(&self) -> &'static str;

    /// Kinds that must be listed before the feature's workers start.
    fn watches(&self) -> &'static [Kind];

    /// Starts the watches of kinds that only this feature knows. They end at `stop`.
    fn follow(self: Arc<Self>, _stop: &CancellationToken, _tasks: &mut JoinSet<()>) {}

    /// False for a feature whose watches may fail for lack of rights while the other features act.
    fn is_required(&self) -> bool {
        true
    }

    /// Queue from which the workers take the feature's keys.
    fn queue(&self) -> &WorkQueue<ObjectKey>;

    /// Number of the feature's workers, and their pauses.
    fn workers(&self) -> WorkerSettings {
        WorkerSettings::default()
    }

    /// Queues the keys that an event concerns.
    fn handle(&self, event: &ClusterEvent<'_>);

    /// Queues every key that may need work.
    fn resync(&self);

    /// Does one round of work for a key, and says when the next one is due.
    ///
    /// # Errors
    ///
    /// A call of the API failed. The worker repeats the round later.
    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError>;

    /// Returns true for a failure that is part of normal operation, such as a conflict. It is not logged.
    fn is_expected(&self, error: &CallError) -> bool {
        error.code() == 409
    }

    /// Length of the pause that a worker makes after a key.
    fn rest(&self) -> Duration {
        Duration::ZERO
    }

    /// Updates the gauges that are computed only when metrics are read.
    fn collect(&self) {}

    /// Completes what must not be left unrecorded. Called when the process ends, after the last round of
    /// work.
    async fn drain(&self) {}

    /// Forgets what only a leader knows.
    fn end_term(&self) {}
}

/// A kind of object that the cluster view can watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Evacuations,
    NodeEvacuations,
    NodeEvacuationRules,
    Pods,
    Budgets,
    Nodes,
    Namespaces,
    ReplicaSets,
}

impl Kind {
    /// Name of the kind's watch in log lines and in `/readyz`.
    pub(crate) fn watch_name(self) -> &'static str {
        match self {
            Self::Evacuations => "watch of evacuations",
            Self::NodeEvacuations => "watch of nodeevacuations",
            Self::NodeEvacuationRules => "watch of nodeevacuationrules",
            Self::Pods => "watch of pods",
            Self::Budgets => "watch of poddisruptionbudgets",
            Self::Nodes => "watch of nodes",
            Self::Namespaces => "watch of namespaces",
            Self::ReplicaSets => "watch of replicasets",
        }
    }

    /// Returns true for a kind of the evacuation API.
    pub(crate) fn is_own(self) -> bool {
        matches!(self, Self::Evacuations | Self::NodeEvacuations | Self::NodeEvacuationRules)
    }
}

/// One change of the cluster view.
#[derive(Debug)]
pub(crate) enum ClusterEvent<'a> {
    Evacuation(&'a Change<Evacuation>),
    NodeEvacuation(&'a Change<NodeEvacuation>),
    NodeEvacuationRule(&'a Change<NodeEvacuationRule>),
    Node(&'a Change<Node>),
    Pod(&'a Change<Pod>),
    Budget(&'a Change<PodDisruptionBudget>),
    Namespace(&'a Change<PartialObjectMeta<Namespace>>),
    ReplicaSet(&'a Change<PartialObjectMeta<ReplicaSet>>),
    /// Evacuations whose decision can depend on what changed.
    Affected(&'a BTreeSet<ObjectKey>),
}

/// Time of a key's next round. The smaller of two is the sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Requeue {
    /// The object changed: decide again.
    Now,
    /// The next round is due at that time.
    At(Instant),
    /// Nothing is left to do until an event queues the key.
    OnEvent,
}

impl From<Option<Instant>> for Requeue {
    fn from(time: Option<Instant>) -> Self {
        time.map_or(Self::OnEvent, Self::At)
    }
}

/// Number of a feature's workers, and their pauses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerSettings {
    /// Number of keys that are worked on at once.
    pub(crate) count: usize,
    /// Shortest and longest pause after a failure.
    pub(crate) pause: (Duration, Duration),
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self { count: 8, pause: (Duration::from_millis(250), Duration::from_secs(10)) }
    }
}
