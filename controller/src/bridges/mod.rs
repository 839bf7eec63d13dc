//! Bridges: the maintenance objects of other projects become requests of this one. Each is off by default.
//!
//! # Flow
//!
//! A bridge watches a kind of another project by itself ([`foreign`]). `node_maintenance` and `nvsentinel`
//! are requesters ([`requester`]): they hold each object by a finalizer, ask for the pods, and write the
//! progress back into the object's status. `kubevirt` is a responder, and holds nothing.
//!
//! # Guarantees
//!
//! The policy comes from the controller's flags, never from a foreign object. A bridge writes nothing where
//! the project's own controller acts. A missing kind or right affects no other feature. Requests belong to
//! the controller's user: the right to create the foreign object is the right to drain.

mod drains;
mod foreign;
mod kubevirt;
mod node_maintenance;
mod nvsentinel;
mod options;
mod requester;
mod text;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use options::{Bridge, BridgeOptions};

use self::foreign::Foreign;
use crate::cluster::{CallError, Cluster, ClusterEvent, Feature, Kind, ObjectKey, Requeue, WorkQueue};

/// Returns the bridges that the flags turn on.
pub(crate) fn bridges(cluster: &Cluster, options: &BridgeOptions) -> Vec<Arc<dyn Feature>> {
    let mut wanted = options.bridge.clone();
    wanted.sort_unstable();
    wanted.dedup();
    let bridge = |wanted| -> Arc<dyn Feature> {
        match wanted {
            Bridge::Kubevirt => kubevirt::Migrations::new(cluster),
            Bridge::Nvsentinel => nvsentinel::DrainRequests::new(cluster, options),
            Bridge::NodeMaintenance => node_maintenance::NodeMaintenances::new(cluster, options),
        }
    };
    wanted.into_iter().map(bridge).collect()
}

/// A feature with watches of foreign kinds. The methods are those of [`Feature`].
#[async_trait]
trait Watcher: Send + Sync + 'static {
    /// Name of the bridge in log lines.
    const NAME: &'static str;

    /// Returns the foreign kinds.
    fn foreign(&self) -> Vec<&Arc<Foreign>>;

    /// Returns the queue.
    fn keys(&self) -> &WorkQueue<ObjectKey>;

    /// Queues the keys that an event concerns.
    fn observe(&self, event: &ClusterEvent<'_>);

    /// Queues every key that may need work.
    fn queue_all(&self);

    /// Does one round of work for a key.
    async fn work(&self, key: &ObjectKey) -> Result<Requeue, CallError>;
}

#[async_trait]
impl<W: Watcher> Feature for W {
    fn name(&self) -> &'static str {
        W::NAME
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::Evacuations, Kind::NodeEvacuations, Kind::Nodes, Kind::Pods]
    }

    fn follow(self: Arc<Self>, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
        self.foreign().into_iter().for_each(|foreign| foreign.follow(stop, tasks));
    }

    fn is_required(&self) -> bool {
        false
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        self.keys()
    }

    fn handle(&self, event: &ClusterEvent<'_>) {
        self.observe(event);
    }

    fn resync(&self) {
        self.queue_all();
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        self.work(key).await
    }

    fn is_expected(&self, error: &CallError) -> bool {
        matches!(error.code(), 404 | 409)
    }
}
