//! The Evacuation: one pod, the requests to move it, the answers, and the end.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{EvacuationStatus, RequesterKey, WholeSecond, Window, api_version, kind::kind};

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

/// One request to move the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requester {
    /// The user that the entry belongs to. The server fills in the caller's name when it is empty.
    /// Another name needs the verb `override`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// Domain-prefixed name, such as `drain.evacuation.dev/node-a`; unique among the owner's entries.
    pub name: String,
    /// The reason in CamelCase, for machines, such as `NodeMaintenance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason in words, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Reaction to a refusal; `Wait` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_refusal: Option<RefusalPolicy>,
    /// Time at which this requester stops negotiating, in whole seconds. The server rounds fractions up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<WholeSecond>,
    /// Action at the deadline; `Evict` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_deadline: Option<DeadlineAction>,
    /// Grace period of the eviction, in seconds; the pod's own by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// Time window in which this requester starts negotiating. The entry sleeps until the window opens or the
    /// deadline is reached. Without a window it starts at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

impl Requester {
    /// Returns an entry of that name that leaves everything else to the defaults.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            owner: String::new(),
            name: name.into(),
            reason: None,
            message: None,
            on_refusal: None,
            deadline: None,
            at_deadline: None,
            grace_period_seconds: None,
            window: None,
        }
    }

    /// Returns the key of the entry in `spec.requesters`.
    pub fn key(&self) -> RequesterKey<'_> {
        RequesterKey { owner: &self.owner, name: &self.name }
    }
}

/// Reaction to a responder's refusal. Ordered by hardness: the hardest of the live entries counts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum RefusalPolicy {
    /// The Evacuation fails with reason `Refused`.
    GiveUp,
    /// The Evacuation stays open: the responder can still change its answer.
    #[default]
    Wait,
    /// The server records the refusal, and the controller asks the next responder.
    Override,
}

/// Action at a requester's deadline. Ordered by hardness.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum DeadlineAction {
    /// This requester's entry expires. When the last one expires, the Evacuation fails with reason
    /// `DeadlineGaveUp`.
    GiveUp,
    /// The controller skips the remaining responders and evicts the pod.
    #[default]
    Evict,
    /// The controller deletes the pod, whatever its budgets say.
    Delete,
}
