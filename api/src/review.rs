//! The question that the controller posts to an app's HTTP endpoint. The reply has the answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Answer, DeadlineAction, RefusalPolicy, Timestamp, WholeSecond, api_version};

/// The question that the controller posts. The app replies with `response` filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvacuationReview {
    /// The version of the API: `evacuation.dev/v1alpha1`.
    #[serde(default = "api_version")]
    pub api_version: String,
    /// `EvacuationReview`.
    #[serde(default = "EvacuationReview::default_kind")]
    pub kind: String,
    /// The question. An app need not send it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<ReviewRequest>,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ReviewResponse>,
}

impl EvacuationReview {
    /// The kind's name, as in an object's `kind`.
    pub const KIND: &'static str = "EvacuationReview";

    fn default_kind() -> String {
        Self::KIND.to_owned()
    }

    /// Returns a question.
    pub fn ask(request: ReviewRequest) -> Self {
        Self {
            api_version: api_version(),
            kind: Self::default_kind(),
            request: Some(request),
            response: None,
        }
    }
}

/// The question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewRequest {
    /// Meaning of the question.
    pub action: ReviewAction,
    /// The Evacuation. The reply repeats its UID.
    pub evacuation: ObjectIdentity,
    /// The target pod. The reply repeats its UID.
    pub pod: ObjectIdentity,
    /// Name of the responder that is asked.
    pub responder: String,
    /// The requests to move the pod, with their reasons.
    #[serde(default)]
    pub requesters: Vec<ReviewRequester>,
    /// Reaction to a refusal.
    pub on_refusal: RefusalPolicy,
    /// `true` when nobody wants the pod to move: the answer is shown to a person, and the question is
    /// canceled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rehearsal: bool,
    /// Time at which the question expires without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_by: Option<Timestamp>,
    /// End of the granted delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_until: Option<Timestamp>,
}

/// Meaning of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ReviewAction {
    /// The controller asks the app to move the pod.
    Ask,
    /// The controller repeats the question: a delay ends soon, or the time to ask again after a refusal has
    /// come.
    Remind,
    /// The Evacuation was canceled. Any 2xx reply acknowledges it.
    Cancel,
}

/// Identity of one object, which no other object ever has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectIdentity {
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's UID.
    pub uid: String,
}

/// The part of a requester's entry that an app sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewRequester {
    /// Domain-prefixed name, such as `drain.evacuation.dev/node-a`.
    pub name: String,
    /// The reason in CamelCase, for machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason in words, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time at which this requester stops negotiating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<WholeSecond>,
    /// Action at the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_deadline: Option<DeadlineAction>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewResponse {
    /// The UID of the Evacuation, repeated from the request.
    pub evacuation_uid: String,
    /// The UID of the pod, repeated from the request.
    pub pod_uid: String,
    /// The answer.
    pub answer: Answer,
    /// Delay in seconds, for `Delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<i64>,
    /// Time until the controller may ask again, in seconds, for `Refuse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<i64>,
    /// The reason in CamelCase, for machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason in words, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
