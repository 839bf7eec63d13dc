//! Drains by declaration: NodeEvacuations.
//!
//! # Flow
//!
//! A change in a namespace or of a node queues the drains that it concerns. A worker takes a snapshot of the
//! drain's nodes and pods from the cluster view, lets `evacuation-protocol` plan, writes the status if it
//! changed, and carries the acts out. A second feature keeps up the marks of nodes: the taint of those that
//! are due, and the conditions.
//!
//! # Guarantees
//!
//! Everything that a drain did is in objects: the phase of each node in the status, the cordon's holders in
//! an annotation of the node, the requests in Evacuations, and the pods that stay in the status again. Memory
//! holds only the API server's rejections of requests, which come again, and failed Evacuations that went
//! before the status names their pods. Each write is guarded by the state that was decided on. Live reads
//! confirm which nodes a drain takes in, and that the drain of a node ends.

mod acts;
mod confirmation;
mod daemon_sets;
mod departed;
mod drains;
mod interest;
mod marks;
mod metrics;
mod nodes;
mod orphans;
mod rejections;
mod requests;
mod snapshot;
mod urgency;
mod volumes;

pub(crate) use drains::Drains;
pub(crate) use marks::NodeMarks;
