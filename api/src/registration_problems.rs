//! Problems of a pod's registrations, as the server found them when it created the Evacuation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Problems of the target's registrations, found when the Evacuation was created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationProblems {
    /// The error in the pod's annotation `evacuation.dev/responders`. The annotation counts as one silent
    /// `self`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// The names of the first 16 responders that are not asked, because more than 16 are registered for the
    /// pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub left_out: Vec<String>,
}
