//! Drains: the pods of a node that a drain evacuates, deletes, skips or refuses, with the meanings of
//! `kubectl drain`, and the verdict on the pods that it moves.

mod labels;
mod lifecycle;
mod marks;
mod message;
mod pick;
mod plan;
mod reason;
mod surroundings;
mod verdict;

pub use self::{
    labels::LABELS_CUT,
    lifecycle::{LIFECYCLE_CONDITIONS, is_own_condition},
    marks::{NodeMark, condition_changes, due_taints},
    message::{first_clause, message_parts},
    pick::{DrainFilters, Picked, daemon_set_key, pick},
    plan::{
        CordonChange, DrainAct, DrainPlan, DrainSight, DrainWorld, PodOnNode, RejectedNode, cordon,
        cordon_holders, drain_entry, drain_expiry, drain_start, forget_holders, is_recorded, plan, preview,
        release,
    },
    reason::{DrainRefusal, DrainSkip, DrainWarning},
    surroundings::{Surroundings, silent_since},
    verdict::{
        AttachFailure, DrainedPod, PodCount, PodJudgement, STUCK_AFTER_SECONDS, Standing, Summary, judge,
        summarize, volume_in,
    },
};
