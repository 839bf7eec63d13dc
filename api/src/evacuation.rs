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

    /// Gives back the memory that no field needs: a decoded list has room for four elements, or for up to
    /// twice as many as it has.
    pub fn shrink_to_fit(&mut self) {
        self.spec.requesters.shrink_to_fit();
        let Some(status) = &mut self.status else { return };
        status.requesters.shrink_to_fit();
        status.requesters.iter_mut().for_each(|recorded| recorded.groups.shrink_to_fit());
        if let Some(responders) = &mut status.responders {
            responders.shrink_to_fit();
        }
        status.conditions.shrink_to_fit();
        if let Some(policy) = &mut status.policy {
            policy.deadlines.shrink_to_fit();
            policy.windows.shrink_to_fit();
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
    #[schemars(extend("x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub requesters: Vec<Requester>,
    /// `true` makes it a rehearsal: each responder is asked once, in a question marked as a rehearsal, and
    /// then told that it is over. The pod is never evicted, and a real request for it is neither joined nor
    /// held back. A rehearsal has one requester, with a deadline that gives up and without a window.
    /// Immutable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rehearsal: bool,
    /// Seconds that the Evacuation is kept after it finished; 3600 by default. It is removed earlier when the
    /// namespace has no room for a new one, and after 300 s when its requesters left and others had written
    /// their entries. Only the owner of an entry, or a holder of the verb `override`, changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i64>,
}

impl EvacuationSpec {
    /// Returns the request to move that pod, kept for the default time after its end.
    pub fn new(pod: PodTarget, requesters: Vec<Requester>) -> Self {
        Self { target: Target { pod }, requesters, rehearsal: false, ttl_seconds_after_finished: None }
    }
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
