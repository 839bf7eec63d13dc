//! The Evacuation's status. Each field has one writer, named in its description.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Answer, DeadlineAction, HttpEndpoint, RefusalPolicy, RegistrationProblems, ServiceEndpoint, Timestamp,
};

/// What was answered, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvacuationStatus {
    /// The generation that the status reflects. Server at creation, then controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Who made each entry of `spec.requesters`. Server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub requesters: Vec<RecordedRequester>,
    /// What the live entries of `spec.requesters` amount to. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The responders, highest priority first. The server fixes the list when it creates the Evacuation, and makes
    /// the first one Active unless every requester waits for a window. Server: the list. Controller: the states.
    /// Empty when no responder is registered for the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub responders: Option<Vec<ResponderStatus>>,
    /// Problems of the pod's registrations, found when the Evacuation was created. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<RegistrationProblems>,
    /// The eviction, once every responder is done. Controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction: Option<EvictionStatus>,
    /// `Evacuated`, `Failed`, `Finished` and `Blocked`. Controller; `Failed` with reason `Canceled`: server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// When the Evacuation finished; its time to live counts from here. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<Timestamp>,
}

/// Who made an entry of `spec.requesters`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRequester {
    /// The entry's name.
    pub name: String,
    /// The user who made the entry.
    pub user: String,
    /// The user's groups at that time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// When the entry was made or last changed.
    pub time: Timestamp,
}

/// What the live requesters amount to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// The hardest of the live entries that are awake; `GiveUp` when none is.
    pub on_refusal: RefusalPolicy,
    /// The smallest of the live entries that are awake and name one, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// The deadlines, soonest first, the reached ones too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deadlines: Vec<ScheduledDeadline>,
    /// When the entries that have a window wake, soonest first, the awake ones too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<ScheduledWindow>,
    /// When the next live entry that sleeps wakes because its window opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_window_time: Option<Timestamp>,
}

/// One requester's deadline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledDeadline {
    /// The requester's name.
    pub requester: String,
    /// When.
    pub time: Timestamp,
    /// What happens then.
    pub action: DeadlineAction,
    /// Whether it was reached by the server's clock. A deadline that was reached stays reached.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reached: bool,
}

/// When one requester's window opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledWindow {
    /// The requester's name.
    pub requester: String,
    /// When its window is open for the first time since the window was put.
    pub time: Timestamp,
    /// Whether it was reached by the server's clock. An entry that woke stays awake.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reached: bool,
}

/// One who has a say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResponderStatus {
    /// `self`, or a domain-prefixed name.
    pub name: String,
    /// Higher is asked first.
    pub priority: i32,
    /// How long it may stay silent, in seconds.
    pub timeout_seconds: i64,
    /// How long it may delay in total, in seconds.
    pub max_delay_seconds: i64,
    /// Where at the target pod the controller posts the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpEndpoint>,
    /// The Service that the controller posts the question to. Absent, as is `http`, for a responder that watches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceEndpoint>,
    /// Where it stands. Controller; Active at creation, and `Canceled`: server.
    pub state: ResponderState,
    /// When it became Active. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_time: Option<Timestamp>,
    /// Its last answer. Responder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// When the last answer arrived. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_time: Option<Timestamp>,
    /// Until when it was granted a delay. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_until: Option<Timestamp>,
    /// When a responder that refused may be asked again. Server, from the answer's `retryAfterSeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_time: Option<Timestamp>,
    /// The reason of its answer, in CamelCase for machines. Responder. For an Interrupted `self`: `NodeUnreachable`
    /// when the pod's node was unreachable already when `self` became Active. Controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it answered so, in words; for an Interrupted one, what went wrong. Responder, controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether a Canceled responder has said that it knows. Responder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancellation_acknowledged: bool,
}

impl ResponderStatus {
    /// Whether the controller posts the question, instead of the responder watching for it.
    pub fn is_pushed(&self) -> bool {
        self.http.is_some() || self.service.is_some()
    }
}

/// Where a responder stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum ResponderState {
    /// Not asked yet.
    #[default]
    Inactive,
    /// Asked; its answer counts.
    Active,
    /// Passed over: it was silent, its delay ran out, or a deadline was reached.
    Interrupted,
    /// The Evacuation ended while it was asked or before.
    Canceled,
    /// It accepted, or its refusal was overridden.
    Completed,
}

/// How the eviction goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionStatus {
    /// How many attempts were made.
    #[serde(default)]
    pub attempts: i32,
    /// Whether an attempt was made whose outcome is not recorded yet: no requester can withdraw meanwhile.
    #[serde(default)]
    pub in_flight: bool,
    /// Whether the API took the eviction or deletion: the pod is on its way out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
    /// What the last attempt was: `Evict` or `Delete`. Fixed when it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<DeadlineAction>,
    /// How the last attempt ended. Absent while it is in flight, and when it was never posted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempt_result: Option<AttemptResult>,
    /// When the last attempt was made. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempt_time: Option<Timestamp>,
    /// Not before this the next attempt is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_time: Option<Timestamp>,
    /// Who holds the eviction back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<Blocker>,
    /// What the API said to the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How an attempt to evict or delete ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AttemptResult {
    /// The API took it: the pod is on its way out.
    Accepted,
    /// The API answered that it does not.
    Rejected,
    /// It was not answered, and the pod did not go.
    NotTaken,
}

/// One who holds an eviction back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    /// The kind of the object, such as `PodDisruptionBudget`.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// How it blocks, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
