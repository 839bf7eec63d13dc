//! The Evacuation: one pod, who wants it moved, what was answered, how it ended.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EvacuationStatus, Timestamp, Window, api_version, kind::kind};

/// How long a finished Evacuation is kept when `ttlSecondsAfterFinished` is not given, in seconds.
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
    /// What is asked, and by whom.
    pub spec: EvacuationSpec,
    /// What was answered, and how it ended. Written by the server, the controller and the responders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<EvacuationStatus>,
}

kind!(Evacuation, "Evacuation", "evacuations", NamespaceResourceScope);

impl Evacuation {
    /// An Evacuation of that name, not yet created. An empty name leaves the naming to `generateName`.
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

/// What is asked, and by whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvacuationSpec {
    /// What is to move. Immutable.
    pub target: Target,
    /// Who wants it moved, and how hard; at least one, with distinct names.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub requesters: Vec<Requester>,
    /// How long the Evacuation is kept after it finished, in seconds; 3600 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i64>,
}

/// What is to move.
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
    /// The pod's UID. The server fills it in from the live pod; one that is given must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// One who wants the pod moved, and how hard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requester {
    /// Domain-prefixed and unique in the list, such as `drain.evacuation.dev/node-a`.
    pub name: String,
    /// Why, in CamelCase for machines, such as `NodeMaintenance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What happens when a responder refuses; `Wait` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_refusal: Option<RefusalPolicy>,
    /// When this requester stops negotiating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// What happens at the deadline; `Evict` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_deadline: Option<DeadlineAction>,
    /// The grace period of the eviction, in seconds; the pod's own by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// When this requester starts negotiating: it sleeps until its window opens, or its deadline is reached. At once when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

/// What happens when a responder refuses. Ordered by hardness: the hardest of the live entries counts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum RefusalPolicy {
    /// The Evacuation fails with reason `Refused`.
    GiveUp,
    /// The responder may still change its mind.
    #[default]
    Wait,
    /// The refusal is recorded and the next responder is asked.
    Override,
}

/// What happens at a requester's deadline. Ordered by hardness.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum DeadlineAction {
    /// This requester's entry lapses; when the last one lapses the Evacuation fails with reason `DeadlineGaveUp`.
    GiveUp,
    /// The responders that are left are skipped and the pod is evicted.
    #[default]
    Evict,
    /// The pod is deleted, whatever its budgets say.
    Delete,
}
