//! Projections: the parts of others' objects that the rules read, and that a process therefore keeps.
//!
//! The authors of the objects decide how often a part repeats, and a decoded part takes up to two hundred
//! times the memory of its text. So each part that can repeat is dropped, or has a bound. A projection is
//! never written back.

mod budget;
mod metadata;
mod pod;

use k8s_openapi::api::core::v1::Node;

pub use self::{budget::project_budget, metadata::project_metadata, pod::project_pod};

/// Drops what no rule reads of a node. The kubelet lists up to fifty images.
pub fn project_node(node: &mut Node) {
    node.metadata.managed_fields = None;
    if let Some(status) = &mut node.status {
        status.images = None;
    }
}
