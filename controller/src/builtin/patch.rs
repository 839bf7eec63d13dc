//! Patches of pods, guarded by the state that was decided on.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde::Serialize;

use crate::cluster::{CallError, Cluster, Leadership, ObjectKey, View, call};

/// Name of the responders in the managed fields of pods.
const FIELD_MANAGER: &str = "evacuation-built-in-responders";

/// A change of a pod's metadata. `None` removes a label or an annotation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodChange {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, Option<String>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<String, Option<String>>,
    /// Owners to add. The view does not have all owners of a pod, so others stay: a strategic merge patch
    /// adds by UID.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) owner_references: Vec<OwnerReference>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Guarded<'a> {
    uid: Option<&'a str>,
    resource_version: Option<&'a str>,
    #[serde(flatten)]
    change: &'a PodChange,
}

#[derive(Debug, Serialize)]
struct Body<'a> {
    metadata: Guarded<'a>,
}

impl PodChange {
    /// Adds one label to the change.
    pub(super) fn label(mut self, key: &str, value: Option<&str>) -> Self {
        self.labels.insert(key.to_owned(), value.map(str::to_owned));
        self
    }

    /// Adds one annotation to the change.
    pub(super) fn annotation(mut self, key: &str, value: Option<&str>) -> Self {
        self.annotations.insert(key.to_owned(), value.map(str::to_owned));
        self
    }
}

/// Writer of changes of pods.
pub(super) struct Patcher {
    client: Client,
    leadership: Leadership,
    view: Arc<View>,
}

impl Patcher {
    /// Returns a writer that stores what the API returns in the view.
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self {
            client: cluster.client.clone(),
            leadership: cluster.leadership.clone(),
            view: Arc::clone(&cluster.view),
        }
    }

    /// Changes a pod if it is still in the state that was decided on. The view holds the result afterwards.
    pub(super) async fn patch(&self, pod: &Pod, change: &PodChange) -> Result<(), CallError> {
        self.leadership.check()?;
        let key = ObjectKey::of(pod);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let body = Body {
            metadata: Guarded {
                uid: pod.metadata.uid.as_deref(),
                resource_version: pod.metadata.resource_version.as_deref(),
                change,
            },
        };
        let parameters =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Strategic(&body);
        let patched = call(format!("patch pod {key}"), api.patch(&key.name, &parameters, &patch)).await?;
        self.view.apply(patched);
        Ok(())
    }
}
