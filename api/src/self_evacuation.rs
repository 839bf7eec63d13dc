//! The SelfEvacuation: the view that a pod has of the Evacuations that target it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Evacuation, EvacuationSpec, EvacuationStatus, api_version, kind::kind};

/// An Evacuation of the caller's own pod. Virtual and read-only: the server derives it from the Evacuation of
/// the same name and UID, for the pod that the caller's bound token names. It does not show the requesters'
/// users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelfEvacuation {
    /// The version of the API: `evacuation.dev/v1alpha1`.
    #[serde(default = "api_version")]
    pub api_version: String,
    /// `SelfEvacuation`.
    #[serde(default = "SelfEvacuation::default_kind")]
    pub kind: String,
    /// The Evacuation's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The request: the pod to move, and the requesters.
    pub spec: EvacuationSpec,
    /// The answers and the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<EvacuationStatus>,
}

kind!(SelfEvacuation, "SelfEvacuation", "selfevacuations", NamespaceResourceScope);

impl From<Evacuation> for SelfEvacuation {
    fn from(evacuation: Evacuation) -> Self {
        let mut spec = evacuation.spec;
        spec.requesters.iter_mut().for_each(|entry| entry.owner.clear());
        let mut status = evacuation.status;
        if let Some(status) = &mut status {
            status.requesters.clear();
            if let Some(policy) = &mut status.policy {
                policy.deadlines.iter_mut().for_each(|row| row.owner.clear());
                policy.windows.iter_mut().for_each(|row| row.owner.clear());
            }
        }
        let metadata = ObjectMeta { managed_fields: None, annotations: None, ..evacuation.metadata };
        Self { api_version: api_version(), kind: Self::default_kind(), metadata, spec, status }
    }
}
