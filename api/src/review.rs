//! The question: posted by the controller to an app's HTTP endpoint; the reply holds the answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Answer, DeadlineAction, RefusalPolicy, Timestamp, api_version};

/// What the controller posts, and, with `response` filled in, what the app replies.
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

    /// A question.
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
    /// What is meant.
    pub action: ReviewAction,
    /// The Evacuation; the reply repeats its UID.
    pub evacuation: ObjectIdentity,
    /// The target pod; the reply repeats its UID.
    pub pod: ObjectIdentity,
    /// The responder that is asked.
    pub responder: String,
    /// Who wants the pod moved, and why.
    #[serde(default)]
    pub requesters: Vec<ReviewRequester>,
    /// What follows a refusal.
    pub on_refusal: RefusalPolicy,
    /// When the question lapses without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_by: Option<Timestamp>,
    /// Until when a delay was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_until: Option<Timestamp>,
}

/// What a question means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ReviewAction {
    /// The pod is asked to move.
    Ask,
    /// The question is repeated: a delay is running out, or it is time to ask again after a refusal.
    Remind,
    /// The Evacuation was canceled; any 2xx reply acknowledges it.
    Cancel,
}

/// Names one object for ever.
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

/// What an app is told of a requester.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewRequester {
    /// Domain-prefixed, such as `drain.evacuation.dev/node-a`.
    pub name: String,
    /// Why, in CamelCase for machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When this requester stops negotiating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// What happens then.
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
    /// For `Delay`: how long, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<i64>,
    /// For `Refuse`: when to ask again, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<i64>,
    /// Why, in CamelCase for machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
