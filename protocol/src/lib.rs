//! The rules between objects: what may change, and what to do next.
//!
//! This crate is pure. It has no I/O and reads no clock: every function takes the objects and the time, and
//! returns what follows. The server calls it to guard the rules, the controller to decide ([`decide`]),
//! kubectl to pick pods ([`pick`]) and to print the state ([`state_word`]). A model checker walks the code
//! that runs.
//!
//! # Flow
//!
//! 1. [`begin`] and [`fix_responders`] make the status of a new Evacuation; [`check_requester_edit`] and
//!    [`apply_requester_edit`] guard who may join, change and leave; [`delete`] and [`cancel`] end it early.
//! 2. [`decide`] decides the controller's next step; [`check_status_update`] checks that write by the
//!    server's clock.
//! 3. [`answer`] takes a responder's answer.
//! 4. [`record_eviction`] turns the outcome of an attempt into the next status.
//! 5. [`judge`] and [`summarize`] make the verdict of a drain.
//! 6. [`plan_rules`] opens and closes the drains of marked nodes.
//! 7. [`plan_eviction`] carries out Kubernetes' own EvictionRequests.
//! 8. [`other_members`] and [`part_group, plan_group`] give the pods of a PodGroup one answer.
//! 9. [`Reachability`] and [`LeaseAge`] define an outage, and [`hold_in_outage`] says what an answer is worth
//!    in it.
//!
//! # Modules
//!
//! The modules depend on each other in one direction. `status` and `pod` are at the bottom, then `policy`,
//! `eviction`, `upstream` (the names of Kubernetes' own API for evictions), `responders` and `requesters`.
//! `pod_group` (pods that move together) follows. `negotiation` (the controller's decision),
//! `status_update` (the server's check of it), `outage`, `drain`, `rule` and `eviction_request` are at the
//! top, with `projection` (the parts of others' objects that a process keeps).

mod drain;
mod eviction;
mod eviction_request;
#[doc(hidden)]
pub mod fuzzing;
mod negotiation;
mod outage;
mod pod;
mod pod_group;
mod policy;
mod projection;
mod requesters;
mod responders;
mod rule;
mod settings;
mod status;
mod status_update;
#[cfg(test)]
mod testing;
mod time;
mod upstream;

pub use drain::{
    AttachFailure, CordonChange, DrainAct, DrainFilters, DrainPlan, DrainRefusal, DrainSight, DrainSkip,
    DrainWarning, DrainWorld, DrainedPod, LABELS_CUT, LIFECYCLE_CONDITIONS, NodeMark, Picked, PodCount,
    PodJudgement, PodOnNode, RejectedNode, STUCK_AFTER_SECONDS, Standing, Summary, Surroundings,
    condition_changes, cordon, cordon_holders, daemon_set_key, drain_entry, drain_expiry, drain_start,
    due_taints, first_clause, forget_holders, is_own_condition, is_recorded, judge, message_parts, pick,
    plan, preview, release, silent_since, summarize, volume_in,
};
pub use eviction::{ATTEMPT_TIMEOUT_SECONDS, EvictionOutcome, PROBE_SECONDS, record_eviction, retry_delay};
pub use eviction_request::{
    EVICTION_REQUESTS_OWNER, EvictionAct, EvictionPlan, EvictionWorld, Voice, has_eviction_entries,
    invalid_request, plan_eviction,
};
pub use negotiation::{
    Act, Attempt, Decision, Delivered, NO_VALID_ANSWER, NOT_ASKED, NOT_REACHED, OUTAGE_GRACE_SECONDS, Push,
    TERMINATING_MARGIN_SECONDS, World, active_answer, continues_by, current_responder, decide,
    deleted_despite, left_to_callers_until, state_word,
};
pub use outage::{
    Hold, LEADERLESS, LeaseAge, NO_CONTROLLER, Opening, Outage, OutageCause, OutageSpan, Proof, Reachability,
    Recorded, hold_in_outage, is_recent, lease_renewed, lease_worked, nobody_led, recorded,
};
pub use pod::{BudgetState, BudgetView, LivePod, PodPhase, PodView, keep_pin};
pub use pod_group::{
    GroupAct, GroupPod, MAX_GROUP_MEMBERS, MAX_GROUP_PODS, Member, MemberState, can_be_disrupted, disrupts,
    holding, members_beside, moves_together, other_members, part_group, plan_group, pod_group,
};
pub use policy::{all_asleep, all_expired, derive_policy, has_expired};
pub use projection::{project_budget, project_metadata, project_node, project_pod};
pub use requesters::{
    CountedDeletion, Deletion, EditError, Editor, MIN_SHARED_TTL_SECONDS, RequesterEdit, TargetProblem,
    TargetWarning, apply_requester_edit, begin, budget_blocked_since, check_creation, check_requester_edit,
    counted_deletion, delete, is_kept, joined_at, passes_budgets_at, requester_warnings, target_problem,
    target_warning,
};
pub use responders::{
    ACKNOWLEDGEMENT_SECONDS, AnswerError, DelayBound, EXCHANGE_SECONDS, MIN_ENDPOINT_DELAY_SECONDS,
    NODE_UNREACHABLE, PackedSelector, Registered, answer, asked_again_at, asked_responders,
    awaits_acknowledgement, fix_responders, may_have_stopped, question, registered_responders, room, selects,
};
pub use rule::{RejectedDrain, RuleAct, RulePlan, RuleWorld, at_deadline, owner_rule, plan_rules};
pub use settings::NegotiationSettings;
pub use status::{
    Actor, NEEDS_NONE, PHASE_TRANSITIONS, Phase, TRANSITIONS, Transition, cancel, finished_reason,
    is_finished, is_unseen, needs_none, phase, phase_diagram, responder_diagram, transition_allowed,
};
pub use status_update::{StatusError, check_status_update, check_transition};
pub use upstream::{Eviction, EvictionRequest};
