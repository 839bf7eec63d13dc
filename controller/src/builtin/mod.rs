//! The responders that the controller plays itself. A cluster's operator turns each on by an EvacuationResponder of its name.
//!
//! # Flow
//!
//! The index tells which pods are of interest; workers take them from a queue, see what there is of the pod, its
//! Evacuations and its ReplicaSet, decide purely ([`surge`], [`gate`]), and act: a patch of the pod, an answer.
//!
//! # Guarantees
//!
//! They are ordinary responders of the protocol: they are asked when the status says so, answer by `respond` with the
//! controller's own credentials, and acknowledge a cancellation. Neither `evacuation-protocol` nor the API server knows them.
//! Whatever they do to a pod is recorded in the pod's own annotations, in the same patch, and undone from there, also by a
//! successor, and also when the Evacuation is gone. Every patch is guarded by the pod's UID and resourceVersion.

mod gate;
mod interest;
mod part;
mod patch;
mod reply;
mod surge;
#[cfg(test)]
mod testing;

pub(crate) use gate::Gate;
pub(crate) use surge::Surge;

use crate::cluster::CallError;

/// Returns true when the object changed or went while the responder worked on it.
fn is_expected(error: &CallError) -> bool {
    matches!(error.code(), 404 | 409)
}
