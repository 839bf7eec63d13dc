//! A requester of the controller's own: it asks pods that are stuck in CrashLoopBackOff to move, so that they get a fresh
//! shared context (volumes, what their init containers made, perhaps a node).
//!
//! # Flow
//!
//! What changes in a namespace queues it; one task takes namespaces from the queue while this process leads. [`step`] decides
//! from what is seen of the namespace: which pods are asked, which requests are taken back, and what holds the others back. Before a
//! pod is asked, the pod and what was asked of its owner before are read live, and it is decided again.
//!
//! # Guarantees
//!
//! Of one owner at most one pod is asked at a time, and each time has to wait longer than the one before. What that follows from is in
//! the Evacuations that were made: a label with the owner's UID, an annotation with which attempt it was, and one once the owner's pods
//! have been well for a while. Nothing that decides is only in memory. The platform negotiates, honours budgets and evicts as
//! for any other requester.

mod crash_loop;
mod decide;
mod duration;
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
