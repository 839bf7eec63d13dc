//! A requester of the controller's own. It asks pods stuck in CrashLoopBackOff to move. The new pod has fresh
//! volumes and init results, and perhaps another node.
//!
//! # Flow
//!
//! A change in a namespace queues it. The worker decides from a snapshot of the namespace: the pods to ask,
//! the requests to withdraw, and the holds of the others. Before a pod is asked, the pod and the earlier
//! requests for its owner are read live, and the decision is repeated.
//!
//! # Guarantees
//!
//! At most one pod of an owner is asked at a time, after a backoff that grows with each attempt. The
//! Evacuations hold all that this depends on: a label with the owner's UID, an annotation with the number of
//! the attempt, and one with the time since which the owner's pods are well. No decision depends on memory
//! alone. The platform negotiates, honours budgets and evicts as for every requester.

mod crash_loop;
mod decide;
mod history;
mod hold;
mod hold_reporter;
mod limits;
mod manifest;
mod names;
mod opt_in;
mod owner;
mod planner;
mod refresher;
mod requests;
mod snapshot;

pub use limits::RefreshOptions;
pub(crate) use refresher::Refresher;

use limits::Limits;

#[cfg(test)]
mod testing;
