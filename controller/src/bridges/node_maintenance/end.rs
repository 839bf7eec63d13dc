//! Ends of a maintenance: its deletion, and the operator that takes it over.

use kube::{ResourceExt, core::DynamicObject};

use super::{FINALIZER, NodeMaintenances, node_of, status::Status};
use crate::{
    bridges::foreign::is_held,
    cluster::{CallError, Notice, Requeue, lock},
};

impl NodeMaintenances {
    /// Takes the drain back, and lets the object go.
    pub(super) async fn end(&self, object: &DynamicObject) -> Result<Requeue, CallError> {
        if !self.drains.close(object).await? {
            return Ok(Requeue::OnEvent);
        }
        let name = node_of(object);
        self.leave_node(object, name).await?;
        self.foreign.release(object, FINALIZER).await?;
        self.tell(
            object,
            Notice::normal("RemovedMaintenance", format!("maintenance of node {name} is over")),
        );
        Ok(Requeue::OnEvent)
    }

    /// Tells once that an object is left to the operator.
    pub(super) fn tell_of_operator(&self, object: &DynamicObject) {
        let uid = object.uid().unwrap_or_default();
        if lock(&self.left_alone).insert(uid) {
            let note = "medik8s' operator acts on it: the bridge leaves it alone".to_owned();
            self.tell(object, Notice::warning("OperatorFound", note));
        }
    }

    /// Leaves an object to the operator: takes back all requests, and keeps the cordon.
    pub(super) async fn step_back(&self, object: &DynamicObject) -> Result<Requeue, CallError> {
        self.tell_of_operator(object);
        if !is_held(object, FINALIZER) {
            return Ok(Requeue::OnEvent);
        }
        if let Some(drain) = self.drains.get(object) {
            for node in &drain.spec.nodes.names {
                self.exclusion.leave_cordon(node, &drain.name_any()).await?;
            }
        }
        if !self.drains.close(object).await? {
            return Ok(Requeue::OnEvent);
        }
        self.leave_node(object, node_of(object)).await?;
        self.foreign.release(object, FINALIZER).await?;
        Ok(Requeue::OnEvent)
    }

    /// Ends the exclusion of a node from remediation, unless another NodeMaintenance needs it.
    pub(super) async fn leave_node(&self, object: &DynamicObject, name: &str) -> Result<(), CallError> {
        let needs = |other: &DynamicObject| {
            other.uid() != object.uid()
                && node_of(other) == name
                && is_held(other, FINALIZER)
                && other.metadata.deletion_timestamp.is_none()
                && !Status::of(other).has_failed()
        };
        if name.is_empty() || self.foreign.all().iter().any(|other| needs(other)) {
            return Ok(());
        }
        self.exclusion.release(name).await
    }
}
