//! The Evacuation API, `evacuation.dev/v1alpha1`: types, names, defaults and the validation of one object.
//!
//! This crate is pure: it has no I/O and reads no clock. What holds between objects, and over time, is
//! in `evacuation-protocol`.

mod condition;
mod evacuation;
mod kind;
mod names;
mod responder;
mod response;
mod review;
mod self_evacuation;
mod status;
mod time;

pub use condition::{BlockedReason, ConditionType, EvacuatedReason, FailedReason};
pub use evacuation::{
    DEFAULT_TTL_SECONDS_AFTER_FINISHED, DeadlineAction, Evacuation, EvacuationSpec, PodTarget, RefusalPolicy,
    Requester, Target,
};
pub use names::{
    CANCELLATION_FINALIZER, DOMAIN, GROUP, RESPONDERS_ANNOTATION, SELF_RESPONDER, VERSION, api_version,
};
pub use responder::{
    DEFAULT_MAX_DELAY_SECONDS, DEFAULT_PRIORITY, DEFAULT_TIMEOUT_SECONDS, HttpEndpoint, ResponderEntry,
};
pub use response::{Answer, EvacuationResponse, EvacuationResponseSpec, EvacuationResponseStatus};
pub use review::{
    EvacuationReview, ObjectIdentity, ReviewAction, ReviewRequest, ReviewRequester, ReviewResponse,
};
pub use self_evacuation::SelfEvacuation;
pub use status::{
    Blocker, EvacuationStatus, EvictionStatus, Policy, RecordedRequester, ResponderState, ResponderStatus,
    ScheduledDeadline,
};
pub use time::{Timestamp, condition_time, from_condition_time};
