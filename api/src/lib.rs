//! The Evacuation API, `evacuation.dev/v1alpha1`: types, names, defaults and the validation of one object.
//!
//! This crate is pure: it has no I/O and reads no clock. The rules between objects, and over time, are
//! in `evacuation-protocol`.

mod blindness;
mod built_in;
mod condition;
mod defaults;
mod drained_node;
mod endpoint;
mod evacuation;
mod evacuation_responder;
mod gateway_configuration;
mod json;
mod kind;
mod manifest_problems;
mod names;
mod negotiation_settings;
mod node_evacuation;
mod node_evacuation_rule;
mod node_evacuation_rule_status;
mod node_evacuation_status;
mod owner_groups;
mod pod_annotations;
mod registration_problems;
mod requester;
mod responder;
mod response;
mod review;
mod self_evacuation;
mod status;
mod time;
mod validation;
mod window;
mod window_calendar;

pub use blindness::{BLIND_ANNOTATION, Blindness};
pub use built_in::{
    BUILT_IN_RESPONDERS, DRAIN_REQUEST_FINALIZER, EXCLUDED_ANNOTATION, EXCLUDED_LABEL, GATE_ASKED_ANNOTATION,
    GATE_CONDITION_TYPE_ANNOTATION, GATE_MESSAGE_ANNOTATION, GATE_OPEN_ANNOTATION, GATE_OPEN_CONDITION,
    GATE_RESPONDER, MIGRATE_RESPONDER, NO_REPLACEMENT_REASON, NODE_MAINTENANCE_FINALIZER,
    ONE_AT_A_TIME_ANNOTATION, REFRESH_AFTER_ANNOTATION, REFRESH_AFTER_RESTARTS_ANNOTATION,
    REFRESH_ENABLED_ANNOTATION, RELEASED_ANNOTATION, REPLACEMENT_RESPONDER, REPLACEMENT_TIMEOUT_ANNOTATION,
    is_unknown_built_in,
};
pub use condition::{
    BlockedReason, ConditionReason, ConditionType, DrainBlockerReason, DrainConditionType, EvacuatedReason,
    FailedReason,
};
pub use defaults::{default_evacuation, default_evacuation_update, default_owners};
pub use drained_node::{
    CordonOwner, DrainPodCounts, DrainVerdict, DrainedNode, DrainedNodePhase, MAX_COUNTED_PODS,
    MAX_DAEMON_SET_PODS, MAX_RETURNED_OWNERS, MAX_RETURNED_PODS, ReturnedOwner,
};
pub use endpoint::{CaBundle, DEFAULT_HTTP_PATH, HttpEndpoint, HttpsTrust, ServiceEndpoint};
pub use evacuation::{DEFAULT_TTL_SECONDS_AFTER_FINISHED, Evacuation, EvacuationSpec, PodTarget, Target};
pub use evacuation_responder::{EvacuationResponder, EvacuationResponderSpec, default_evacuation_responder};
pub use gateway_configuration::{
    CallerAct, CallerMatch, CallerRow, GatewayConfiguration, GraceRange, GraceSource, Operation,
};
pub use json::{Json, JsonFields};
pub use manifest_problems::{manifest_problems, manifest_responders};
pub use names::{
    APISERVER_DOMAIN, CANCELLATION_FINALIZER, DOMAIN, GATEWAY_ANSWERS, GATEWAY_ASK_ALL, GATEWAY_ASK_LABEL,
    GATEWAY_COUNT_DELETIONS, GATEWAY_COUNT_LABEL, GATEWAY_DOMAIN, GATEWAY_ENTRY_PREFIX, GATEWAY_STARTS,
    GATEWAY_TRIAL_POD, GATEWAY_WEBHOOKS, GATEWAY_WORKLOAD_ROWS, GROUP, LIMIT_CAUSES, POD_GROUP_REQUESTER,
    REFRESH_REQUESTER, RESPONDERS_ANNOTATION, SELF_RESPONDER, VERSION, api_version,
};
pub use negotiation_settings::{MAX_SETTINGS_SECONDS, NegotiationSettingsFile};
pub use node_evacuation::{
    CORDONED_BY_ANNOTATION, CordonPolicy, DRAIN_ENTRY_PREFIX, DRAIN_FINALIZER, DRAIN_IN_PROGRESS, DRAINED,
    DUE_TAINT, DaemonSetRule, DrainPhase, DrainRequester, EmptyDirRule, GRACEFUL_NODE_SHUTDOWN_IN_PROGRESS,
    LateRule, MAINTENANCE_IN_PROGRESS, MAINTENANCE_PLANNED, MaxParallel, NODE_MARKED, NODE_UNMARKED,
    NodeEvacuation, NodeEvacuationSpec, NodeSelection, PodRules, TopologyLimit, UnmanagedRule,
    default_node_evacuation,
};
pub use node_evacuation_rule::{
    ConditionPattern, DEFAULT_MAX_NODES, KeyPattern, NodeEvacuationRule, NodeEvacuationRuleSpec,
    NodeEvacuationTemplate, NodeMarkPattern, NoticeDeadline, NoticeTime, RULE_FINALIZER, TaintPattern,
    default_node_evacuation_rule,
};
pub use node_evacuation_rule_status::{
    MarkedNode, MarkedNodePhase, NodeEvacuationRuleStatus, RULE_HOLDS_BACK,
};
pub use node_evacuation_status::{
    DrainBlocker, DrainUser, LeftAlonePod, MAX_DRAIN_BLOCKERS, MAX_DRAINED_NODES, MAX_LEFT_ALONE_PODS,
    MAX_PLANNED_PODS, NodeEvacuationStatus, PlannedAct, PlannedPod, PlannedReason,
};
pub use owner_groups::{OWNER_GROUPS_ANNOTATION, OwnerGroups};
pub use pod_annotations::{
    AnnotationProblem, AnnotationValueError, POD_ANNOTATIONS, annotation_problems, is_own_annotation,
    parse_duration, parse_gate_name, parse_gate_open, parse_one_at_a_time, parse_refresh_after_restarts,
    parse_refresh_enabled, parse_replacement_timeout,
};
pub use registration_problems::RegistrationProblems;
pub use requester::{DeadlineAction, RefusalPolicy, Requester, RequesterKey};
pub use responder::{DEFAULT_MAX_DELAY_SECONDS, DEFAULT_PRIORITY, DEFAULT_TIMEOUT_SECONDS, ResponderEntry};
pub use response::{Answer, EvacuationResponse, EvacuationResponseSpec, EvacuationResponseStatus};
pub use review::{
    EvacuationReview, ObjectIdentity, ReviewAction, ReviewRequest, ReviewRequester, ReviewResponse,
};
pub use self_evacuation::SelfEvacuation;
pub use status::{
    AttemptResult, Blocker, EvacuationStatus, EvictionAction, EvictionStatus, Policy, RecordedRequester,
    ResponderState, ResponderStatus, ScheduledDeadline, ScheduledWindow,
};
pub use time::{Timestamp, WholeSecond, condition_time, from_condition_time};
pub use validation::{
    MAX_CA_BUNDLE_BYTES, MAX_CALLER_DELETES_SECONDS, MAX_DELAY_SECONDS, MAX_DRAIN_NAME_LENGTH, MAX_MARKS,
    MAX_MESSAGE_LENGTH, MAX_OWNER_LENGTH, MAX_PHASES, MAX_REASON_LENGTH, MAX_REQUESTERS,
    MAX_REQUESTERS_PER_OWNER, MAX_RESPONDERS, MAX_RESPONDERS_BYTES, MAX_RULE_NAME_LENGTH,
    MAX_SCHEDULE_LENGTH, MAX_WINDOW_SECONDS, MIN_WINDOW_SECONDS, RESERVED_REQUESTERS, ResponderParseError,
    is_dns_subdomain, is_qualified_name, nodes_allowed, parse_responders, validate_evacuation,
    validate_evacuation_responder, validate_evacuation_update, validate_gateway_configuration,
    validate_negotiation_settings, validate_node_evacuation, validate_node_evacuation_rule,
    validate_node_evacuation_update, validate_responders, validate_response,
};
pub use window::{DEFAULT_TIME_ZONE, Window};
pub use window_calendar::{WindowCalendar, WindowError};
