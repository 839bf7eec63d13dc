//! The answer, posted to `evacuations/NAME/respond` or `selfevacuations/NAME/respond`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Timestamp, api_version, kind::kind};

/// Answer of a responder to an Evacuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Answer {
    /// Consent: the controller asks the next responder, then evicts. Binds until the eviction or the
    /// cancellation.
    Accept,
    /// Request to wait for the given time; the responder can renew it.
    Delay,
    /// Refusal: the requesters' policy decides what follows.
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
    /// Result, which the server fills in in its reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<EvacuationResponseStatus>,
}

kind!(EvacuationResponse, "EvacuationResponse", "evacuationresponses", NamespaceResourceScope);

impl EvacuationResponse {
    /// Returns the answer of a responder, not yet posted.
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
    /// Name of the responder that answers; `self` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responder: Option<String>,
    /// UID of the Evacuation. A given UID must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evacuation_uid: Option<String>,
    /// UID of the target pod. A given UID must match. A relayed answer needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// The answer. Exactly one of `answer` and `acknowledgeCancellation` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Delay in seconds from the server's receipt, for `Delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<i64>,
    /// Time until the responder may be asked again, in seconds from the server's receipt, for `Refuse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<i64>,
    /// The reason in CamelCase, for machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason in words, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// True to acknowledge the cancellation, instead of an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acknowledge_cancellation: bool,
}

/// Result of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvacuationResponseStatus {
    /// Granted delay in seconds, for `Delay`. Less than requested when a limit cut it. An endpoint gets at
    /// least 10, to be reminded in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_seconds: Option<i64>,
    /// End of the granted delay, for `Delay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_until: Option<Timestamp>,
    /// Limit that cut the delay, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
