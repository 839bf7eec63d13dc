//! The Evacuation's status. Each field has one writer, which its description names.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Answer, DeadlineAction, HttpEndpoint, RefusalPolicy, RegistrationProblems, RequesterKey, ServiceEndpoint,
    Timestamp,
};

/// The answers and the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvacuationStatus {
    /// The generation that the status reflects. Server at creation and after the end, else controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The pod's node when the Evacuation was created. A pod of the same name on another node is a new one.
    /// Empty for a pod that was not scheduled. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The user behind each entry of `spec.requesters`. Server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["owner", "name"]))]
    pub requesters: Vec<RecordedRequester>,
    /// The policy that follows from the live entries of `spec.requesters`. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// The responders, highest priority first. The server fixes the list when it creates the Evacuation.
    /// The first one is then Active unless every requester waits for a window. Server: the list.
    /// Controller: the states. Empty when no responder is registered for the pod.
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
    /// Time at which the Evacuation finished; its time to live starts here. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<Timestamp>,
}

/// The user behind an entry of `spec.requesters`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRequester {
    /// The user that the entry belongs to.
    #[serde(default)]
    pub owner: String,
    /// The entry's name.
    pub name: String,
    /// The user who made the entry: the owner, or a holder of the verb `override`.
    pub user: String,
    /// The user's groups at that time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The owner's groups, when a trusted writer made the entry in the owner's name and declared them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owner_groups: Vec<String>,
    /// Time at which the entry was made or last changed.
    pub time: Timestamp,
    /// Time at which the entry was made. A change keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_time: Option<Timestamp>,
    /// Time at which the entry left. The newest entries that left stay recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_time: Option<Timestamp>,
}

impl RecordedRequester {
    /// Returns the key of the entry in `spec.requesters`.
    pub fn key(&self) -> RequesterKey<'_> {
        RequesterKey { owner: &self.owner, name: &self.name }
    }

    /// Returns the time at which the entry was made. A record of an older server has only its last change.
    pub fn joined(&self) -> Timestamp {
        self.joined_time.unwrap_or(self.time)
    }
}

/// The policy that follows from the live entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// Hardest policy of the live entries that are awake; `GiveUp` when none is.
    pub on_refusal: RefusalPolicy,
    /// Smallest grace period of the live entries that are awake and name one, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// Deadlines, soonest first, the reached ones too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deadlines: Vec<ScheduledDeadline>,
    /// Times at which the entries with a window wake, soonest first, the awake ones too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<ScheduledWindow>,
    /// Time at which the next sleeping entry wakes because its window opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_window_time: Option<Timestamp>,
}

/// Deadline of one requester.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledDeadline {
    /// The entry's owner.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// The entry's name.
    pub requester: String,
    /// Time of the deadline.
    pub time: Timestamp,
    /// Action at the deadline.
    pub action: DeadlineAction,
    /// True once the server's clock reached it. A deadline that was reached stays reached.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reached: bool,
}

impl ScheduledDeadline {
    /// Returns the key of the entry in `spec.requesters`.
    pub fn key(&self) -> RequesterKey<'_> {
        RequesterKey { owner: &self.owner, name: &self.requester }
    }
}

/// Opening of one requester's window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledWindow {
    /// The entry's owner.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// The entry's name.
    pub requester: String,
    /// Time at which the window is open for the first time since it was written.
    pub time: Timestamp,
    /// True once the server's clock reached it. An entry that woke stays awake.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reached: bool,
}

impl ScheduledWindow {
    /// Returns the key of the entry in `spec.requesters`.
    pub fn key(&self) -> RequesterKey<'_> {
        RequesterKey { owner: &self.owner, name: &self.requester }
    }
}

/// One responder: its registration, its state and its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResponderStatus {
    /// `self`, or a domain-prefixed name.
    pub name: String,
    /// Priority: higher is asked first.
    pub priority: i32,
    /// Time that it may stay silent, in seconds.
    pub timeout_seconds: i64,
    /// Maximum total delay, in seconds.
    pub max_delay_seconds: i64,
    /// True when the pod serves until it is terminated, whatever this responder is asked and answers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub serves_until_termination: bool,
    /// Endpoint of the target pod to which the controller posts the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpEndpoint>,
    /// Service to which the controller posts the question. Absent, as is `http`, for a responder that
    /// watches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceEndpoint>,
    /// State. Controller; Active at creation, and `Canceled`: server.
    pub state: ResponderState,
    /// Time at which it became Active. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_time: Option<Timestamp>,
    /// Time at which its first question reached its endpoint: `timeoutSeconds` and `maxDelaySeconds` count
    /// from then. Only for a responder with `http` or `service`. Server, when the controller reports the
    /// delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_time: Option<Timestamp>,
    /// Time of the first question that could not reach its endpoint: `timeoutSeconds` counts from then, until
    /// one reaches it, and anew from `askedTime`. Server, when the controller reports the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable_time: Option<Timestamp>,
    /// Last answer. Responder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Time at which the last answer arrived. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_time: Option<Timestamp>,
    /// End of the granted delay. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_until: Option<Timestamp>,
    /// Time from which a responder that refused may be asked again. Server, from the answer's
    /// `retryAfterSeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_time: Option<Timestamp>,
    /// Reason of the answer in CamelCase, for machines. Responder. For an Interrupted `self`:
    /// `NodeUnreachable` when the pod's node was unreachable before `self` became Active. Controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Reason of the answer in words. For an Interrupted responder, the failure; for an endpoint that has not
    /// answered, what was wrong with its last reply. Responder, controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What was wrong with the last reply of an endpoint to a reminder since its answer. Controller; the
    /// server removes it with the next answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// True when a Canceled responder has acknowledged the cancellation. Responder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancellation_acknowledged: bool,
}

impl ResponderStatus {
    /// Returns true when the controller posts the question. Otherwise the responder watches for it.
    pub fn is_pushed(&self) -> bool {
        self.http.is_some() || self.service.is_some()
    }
}

/// State of a responder.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum ResponderState {
    /// Not asked yet.
    #[default]
    Inactive,
    /// Asked: its answer counts.
    Active,
    /// Skipped: it was silent, its delay ended, or a deadline was reached.
    Interrupted,
    /// The Evacuation ended while it was asked or before.
    Canceled,
    /// It accepted, or its refusal was overridden.
    Completed,
}

impl ResponderState {
    /// Returns true when the responder's part is over.
    pub fn is_done(self) -> bool {
        !matches!(self, Self::Inactive | Self::Active)
    }
}

/// Record of the eviction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionStatus {
    /// Number of attempts.
    #[serde(default)]
    pub attempts: i32,
    /// True while the outcome of an attempt is not recorded yet. No requester can withdraw in this time.
    #[serde(default)]
    pub in_flight: bool,
    /// True when the API accepted the eviction or deletion: the pod terminates.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
    /// Kind of the last attempt. Fixed when it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<EvictionAction>,
    /// Result of the last attempt. Absent while it is in flight, and when it was never posted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempt_result: Option<AttemptResult>,
    /// Time of the last attempt. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempt_time: Option<Timestamp>,
    /// Earliest time of the next attempt. Before the first attempt: the time until which the callers behind
    /// the entries can delete the pod themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_time: Option<Timestamp>,
    /// Time since which budgets hold the eviction back, without another reason in between. Absent while none
    /// does. Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_blocked_time: Option<Timestamp>,
    /// Objects that hold the eviction back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<Blocker>,
    /// Reply of the API to the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Kind of an attempt to move the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum EvictionAction {
    /// A request to the eviction API, which respects budgets.
    Evict,
    /// A deletion, which does not.
    Delete,
}

/// Result of an attempt to evict or delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AttemptResult {
    /// The API accepted it: the pod terminates.
    Accepted,
    /// The API rejected it.
    Rejected,
    /// There was no reply, and the pod did not go.
    NotTaken,
}

/// Object that holds an eviction back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    /// The kind of the object, such as `PodDisruptionBudget`.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The reason in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
