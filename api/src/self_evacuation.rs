//! The SelfEvacuation: what a pod sees of the Evacuations that target it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Evacuation, EvacuationSpec, EvacuationStatus, api_version, kind::kind};

/// An Evacuation of the caller's own pod. Virtual and read-only: the server makes it from the Evacuation of the
/// same name and UID, for the pod that the caller's bound token names, without the users behind the requesters.
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
    /// What is asked, and by whom.
    pub spec: EvacuationSpec,
    /// What was answered, and how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<EvacuationStatus>,
}

kind!(SelfEvacuation, "SelfEvacuation", "selfevacuations", NamespaceResourceScope);

impl From<Evacuation> for SelfEvacuation {
    fn from(evacuation: Evacuation) -> Self {
        let status = evacuation.status.map(|status| EvacuationStatus { requesters: Vec::new(), ..status });
        let metadata = ObjectMeta { managed_fields: None, annotations: None, ..evacuation.metadata };
        Self {
            api_version: api_version(),
            kind: Self::default_kind(),
            metadata,
            spec: evacuation.spec,
            status,
        }
    }
}
