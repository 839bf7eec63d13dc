//! One answer: posted to `evacuations/NAME/respond` or `selfevacuations/NAME/respond`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Timestamp, api_version, kind::kind};

/// What a responder says to an Evacuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Answer {
    /// Go ahead. It binds until the eviction or the cancellation.
    Accept,
    /// Wait for the given time; may be renewed.
    Delay,
    /// Do not; the requesters' policy decides what follows.
    Refuse,
}

/// One answer of one responder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvacuationResponse {
    /// The version of the API: `evacuation.dev/v1alpha1`.
    #[serde(default = "api_version")]
    pub api_version: String,
    /// `EvacuationResponse`.
    #[serde(default = "EvacuationResponse::default_kind")]
    pub kind: String,
    /// Standard object metadata; the name, where given, is the Evacuation's.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The answer.
    pub spec: EvacuationResponseSpec,
    /// What became of it. Filled in by the server in its reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<EvacuationResponseStatus>,
}

kind!(EvacuationResponse, "EvacuationResponse", "evacuationresponses", NamespaceResourceScope);

impl EvacuationResponse {
    /// The answer of a responder, not yet posted.
    pub fn new(spec: EvacuationResponseSpec) -> Self {
        Self {
            api_version: api_version(),
            kind: Self::default_kind(),
            metadata: ObjectMeta::default(),
            spec,
            status: None,
        }
    }
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvacuationResponseSpec {
    /// Who answers; `self` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responder: Option<String>,
    /// The UID of the Evacuation that is answered; where given it must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evacuation_uid: Option<String>,
    /// The UID of the target pod; where given it must match. Required of an answer that is relayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// The answer. Exactly one of `answer` and `acknowledgeCancellation` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// For `Delay`: how long, in seconds, from the server's receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<i64>,
    /// For `Refuse`: when to ask again, in seconds from the server's receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<i64>,
    /// Why, in CamelCase for machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Says that this responder knows of the cancellation, instead of an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acknowledge_cancellation: bool,
}

/// What became of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvacuationResponseStatus {
    /// For `Delay`: how long was granted, in seconds; less than asked when a bound cut it short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_seconds: Option<i64>,
    /// For `Delay`: until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_until: Option<Timestamp>,
    /// Why less was granted than asked, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
