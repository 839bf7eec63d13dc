//! Writes of nodes, each guarded by the state that was decided on.

use std::{fmt::Debug, sync::Arc};

use evacuation_api::CORDONED_BY_ANNOTATION;
use evacuation_protocol::CordonChange;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde::Serialize;
use serde_json::{Value, json};
use tracing::info;

use crate::cluster::{CallError, Cluster, View, Writer, call};

/// Name of the controller in the managed fields of nodes.
const FIELD_MANAGER: &str = "evacuation-controller";

/// Writer of nodes.
pub(super) struct NodeWriter {
    writer: Writer,
    view: Arc<View>,
}

impl NodeWriter {
    /// Returns a writer that stores what the API returns in the view.
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self { writer: cluster.writer(), view: Arc::clone(&cluster.view) }
    }

    /// Changes the cordon and its holders in one write.
    ///
    /// # Errors
    ///
    /// A 409 for a node that has changed: it is decided on again.
    pub(super) async fn change_cordon(
        &self,
        node: &Node,
        change: CordonChange,
        verb: &str,
    ) -> Result<(), CallError> {
        let metadata = json!({
            "uid": node.uid(),
            "resourceVersion": node.resource_version(),
            "annotations": {CORDONED_BY_ANNOTATION: change.annotation},
        });
        // In a merge patch, null removes a field.
        let patch = match change.unschedulable {
            Some(cordoned) => {
                json!({"metadata": metadata, "spec": {"unschedulable": cordoned.then_some(true)}})
            }
            None => json!({"metadata": metadata}),
        };
        self.patch(node, &Patch::Merge(patch), verb).await?;
        info!(node = node.name_any(), holders = change.annotation, cordoned = change.unschedulable, "{verb}");
        Ok(())
    }

    /// Replaces the taints.
    ///
    /// # Errors
    ///
    /// A 409 for a node that has changed.
    pub(super) async fn replace_taints(&self, node: &Node, taints: &[Taint]) -> Result<(), CallError> {
        let metadata = json!({"uid": node.uid(), "resourceVersion": node.resource_version()});
        let patch = json!({"metadata": metadata, "spec": {"taints": taints}});
        self.patch(node, &Patch::Merge(patch), "taint").await
    }

    /// Sets conditions. Each is one item of a list map, so that it replaces no other.
    ///
    /// # Errors
    ///
    /// A 409 for a node that has changed: another may have written the same condition.
    pub(super) async fn set_conditions(&self, node: &Node, conditions: &[Value]) -> Result<(), CallError> {
        let name = node.name_any();
        let metadata = json!({"uid": node.uid(), "resourceVersion": node.resource_version()});
        let patch = json!({"metadata": metadata, "status": {"conditions": conditions}});
        let (patch, parameters) = (Patch::Strategic(patch), parameters());
        let api: Api<Node> = Api::all(self.writer.client()?);
        let write = api.patch_status(&name, &parameters, &patch);
        self.keep(call(format!("set the conditions of node {name}"), write).await?);
        Ok(())
    }

    async fn patch<P: Serialize + Debug>(
        &self,
        node: &Node,
        patch: &Patch<P>,
        verb: &str,
    ) -> Result<(), CallError> {
        let (name, parameters) = (node.name_any(), parameters());
        let api: Api<Node> = Api::all(self.writer.client()?);
        self.keep(call(format!("{verb} node {name}"), api.patch(&name, &parameters, patch)).await?);
        Ok(())
    }

    fn keep(&self, mut node: Node) {
        node.metadata.managed_fields = None;
        self.view.apply(node);
    }
}

fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}
