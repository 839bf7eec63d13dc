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

pub use options::{Bridge, BridgeOptions};

use crate::cluster::{Cluster, Feature};

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
