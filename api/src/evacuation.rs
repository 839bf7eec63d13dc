//! The Evacuation: one pod, the requests to move it, the answers, and the end.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EvacuationStatus, Requester, api_version, kind::kind};

/// Seconds that a finished Evacuation is kept when `ttlSecondsAfterFinished` is not given.
pub const DEFAULT_TTL_SECONDS_AFTER_FINISHED: i64 = 3600;

/// Asks one pod to move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evacuation {
    /// The version of the API: `evacuation.dev/v1alpha1`.
    #[serde(default = "api_version")]
    pub api_version: String,
    /// `Evacuation`.
    #[serde(default = "Evacuation::default_kind")]
    pub kind: String,
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The request: the pod to move, and the requesters.
    pub spec: EvacuationSpec,
    /// The answers and the end. Written by the server, the controller and the responders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<EvacuationStatus>,
}

kind!(Evacuation, "Evacuation", "evacuations", NamespaceResourceScope);

impl Evacuation {
    /// Returns an Evacuation of that name, not yet created. An empty name leaves the naming to
    /// `generateName`.
    pub fn new(name: &str, spec: EvacuationSpec) -> Self {
        Self {
            api_version: api_version(),
            kind: Self::default_kind(),
            metadata: ObjectMeta {
                name: (!name.is_empty()).then(|| name.to_owned()),
                ..ObjectMeta::default()
            },
            spec,
            status: None,
        }
    }
}

/// The request: the pod to move, and the requesters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvacuationSpec {
    /// The pod to move. Immutable.
    pub target: Target,
    /// The requests to move the pod; at least one. Owner and name together are unique.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["owner", "name"]))]
    pub requesters: Vec<Requester>,
    /// Seconds that the Evacuation is kept after it finished; 3600 by default.
    /// Only the owner of an entry, or a holder of the verb `override`, changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i64>,
}

/// The object to move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// A pod of the Evacuation's own namespace.
    pub pod: PodTarget,
}

/// One pod, by name and UID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodTarget {
    /// The pod's name.
    pub name: String,
    /// The pod's UID. The server fills it in from the live pod. A given UID must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}
