//! The responders that the project plays itself, as a process of its own. A cluster operator turns each on by
//! an EvacuationResponder of its name.
//!
//! # Flow
//!
//! The cluster view tells which pods are of interest. Workers take them from a queue and read the pod, its
//! Evacuations and its ReplicaSet. Each responder decides purely ([`surge`], [`gate`]), then patches the pod
//! or answers.
//!
//! # Guarantees
//!
//! They are ordinary responders of the protocol. They act on the status, answer by `respond` with
//! credentials of their own, and acknowledge a cancellation. Neither `evacuation-protocol` nor the API
//! server knows them. Each patch of a pod records its change in the pod's annotations. A responder undoes the
//! change from there, also after a change of the leader or without the Evacuation. Every patch is guarded by
//! the pod's UID and resourceVersion.

mod gate;
mod interest;
mod part;
mod patch;
mod rehearsal;
mod reply;
mod surge;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use gate::Gate;
pub(crate) use interest::{Interest, deleted_evacuation, states};
pub(crate) use part::{Part, after, sooner};
pub(crate) use rehearsal::awaited;
pub(crate) use reply::{Replier, Reply};
pub(crate) use surge::Surge;

use crate::cluster::CallError;

/// Returns true when the object changed or went while the responder worked on it.
fn is_expected(error: &CallError) -> bool {
    matches!(error.code(), 404 | 409)
}
