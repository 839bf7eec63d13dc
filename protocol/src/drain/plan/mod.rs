//! The plan of a drain: the status that follows from the cluster, and the acts to do now.
//!
//! # Flow
//!
//! [`plan`] takes in the nodes, moves each node to its next phase, asks pods of the nodes that are being
//! drained, and sums up what holds each pod. A deleted drain takes its requests back, waits until the
//! responders know, and releases its nodes.
//!
//! # Guarantees
//!
//! Acts follow only from a phase that is stored: the drain first records that it begins a node, then cordons
//! it, then asks. Nothing is asked on a node that is not cordoned, unless the spec says so. An act that is
//! repeated after a restart does no harm.

mod blockers;
mod conditions;
mod cordon;
mod counts;
mod entry;
mod left_alone;
mod members;
mod nodes;
mod planner;
mod pods;
mod preview;
mod returns;
mod rounds;
mod standing;
mod withdrawal;
mod world;

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use evacuation_api::{DrainConditionType, Evacuation, NodeEvacuation, NodeEvacuationStatus, Requester};
use k8s_openapi::api::core::v1::{Node, Pod};

pub use cordon::{CordonChange, cordon, forget_holders, holders as cordon_holders, release};
pub use counts::is_recorded;
pub use entry::{drain_entry, drain_expiry, start_time as drain_start};
pub use preview::{DrainSight, preview};
pub use world::{DrainWorld, PodOnNode, RejectedNode};

use super::DrainWarning;
use planner::Planner;

/// One act of a drain. Each is guarded by the state that was decided on.
#[derive(Clone, Debug, PartialEq)]
pub enum DrainAct<'a> {
    /// Cordon the node and add the drain to its holders: [`cordon`].
    Cordon(&'a Node),
    /// Remove the drain from the node's holders, and uncordon it when none is left: [`release`].
    Release(&'a Node),
    /// Create an Evacuation of the pod with that entry.
    Ask(&'a Pod, Box<Requester>),
    /// Add that entry to an active Evacuation, or replace the drain's entry by it.
    Join(&'a Evacuation, Box<Requester>),
    /// Remove the drain's entry from an active Evacuation.
    Withdraw(&'a Evacuation),
    /// Delete a pod that has ended.
    Remove(&'a Pod),
    /// Delete the drain, which has ended: its time to live is over.
    Delete,
    /// Remove the finalizer of the deleted drain: nothing is left to undo.
    ReleaseFinalizer,
}

/// The next status, the acts, and the time of the next look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DrainPlan<'a> {
    /// The status to write, if it differs from the stored one.
    pub status: NodeEvacuationStatus,
    /// The acts to do now.
    pub acts: Vec<DrainAct<'a>>,
    /// Losses that the requests among the acts cause, because the drain's rules allow them.
    pub losses: BTreeSet<DrainWarning>,
    /// The time to plan again if nothing changes before.
    pub wake_at: Option<DateTime<Utc>>,
}

/// Plans the next step of a drain.
pub fn plan<'a>(drain: &NodeEvacuation, world: &DrainWorld<'a>, now: DateTime<Utc>) -> DrainPlan<'a> {
    let stored = drain.status.clone().unwrap_or_default();
    if drain.metadata.deletion_timestamp.is_some() {
        return withdrawal::withdraw(drain, stored, world, now);
    }
    if stored.is_true(DrainConditionType::Finished) {
        let expiry = drain_expiry(drain);
        let (acts, wake_at) = match expiry {
            Some(time) if time <= now => (vec![DrainAct::Delete], None),
            later => (Vec::new(), later),
        };
        // Earlier controllers wrote another word.
        let status = NodeEvacuationStatus { verdict: Some(stored.verdict()), ..stored };
        return DrainPlan { status, acts, wake_at, ..DrainPlan::default() };
    }
    Planner::plan(drain, stored, world, now)
}

#[cfg(test)]
mod tests;
