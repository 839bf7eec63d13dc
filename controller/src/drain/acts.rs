//! The acts of a drain as requests to the API.

use std::{error::Error, sync::Arc};

use evacuation_api::{DRAIN_FINALIZER, NodeEvacuation, NodeEvacuationStatus};
use evacuation_protocol::{DrainAct, cordon, release};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use tracing::{debug, warn};

use super::{
    nodes::NodeWriter,
    rejections::{is_rejection, node_key},
    requests::Requests,
};
use crate::cluster::{CallError, Cluster, ObjectKey, ServerClock, View, Writer, all_done, call};

/// Number of acts of one drain that are under way at a time.
const AT_ONCE: usize = 16;

/// Writer of a drain's acts.
pub(super) struct Acts {
    writer: Writer,
    view: Arc<View>,
    requests: Requests,
    nodes: NodeWriter,
    clock: Arc<ServerClock>,
}

impl Acts {
    /// Returns a writer that stores what the API returns in the view.
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self {
            writer: cluster.writer(),
            view: Arc::clone(&cluster.view),
            requests: Requests::new(cluster),
            nodes: NodeWriter::new(cluster),
            clock: Arc::clone(&cluster.clock),
        }
    }

    /// Returns the writer of requests.
    pub(super) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Carries the acts out, several at a time.
    ///
    /// # Errors
    ///
    /// The first failure. It does not keep the other acts from being done.
    pub(super) async fn carry_out(
        &self,
        drain: &NodeEvacuation,
        acts: &[DrainAct<'_>],
    ) -> Result<(), CallError> {
        let acts: Vec<_> = acts.iter().map(|act| self.act(drain, act)).collect();
        all_done(acts, AT_ONCE).await
    }

    async fn act(&self, drain: &NodeEvacuation, act: &DrainAct<'_>) -> Result<(), CallError> {
        let name = drain.name_any();
        match act {
            DrainAct::Cordon(node) => self.cordon(drain, node).await,
            DrainAct::Release(node) => match release(node, &name) {
                Some(change) => self.nodes.change_cordon(node, change, "release").await,
                None => Ok(()),
            },
            DrainAct::Ask(pod, entry) => self.requests.ask(drain, pod, entry).await,
            DrainAct::Join(evacuation, entry) => self.requests.join(drain, evacuation, entry).await,
            DrainAct::Withdraw(evacuation) => self.requests.withdraw(drain, evacuation).await,
            DrainAct::Remove(pod) => self.remove(pod).await,
            DrainAct::Delete => self.delete(drain).await,
            DrainAct::ReleaseFinalizer => self.release_finalizer(drain).await,
        }
    }

    /// Cordons a node. A rejection is recorded, and is no failure.
    async fn cordon(&self, drain: &NodeEvacuation, node: &Node) -> Result<(), CallError> {
        let (key, name) = (ObjectKey::of(drain), node.name_any());
        let (rejections, of_node) = (self.requests.rejections(), node_key(&name));
        if rejections.rests(&key, &of_node) {
            return Ok(());
        }
        match self.nodes.change_cordon(node, cordon(node, &key.name), "cordon").await {
            Err(error) if is_rejection(&error) && !matches!(error.code(), 404 | 409) => {
                let message = error.status().map(|status| status.message.clone()).unwrap_or_default();
                warn!(node = name, message, "the API server does not let the controller cordon the node");
                rejections.add(&key, &of_node, &message, self.clock.now());
                Ok(())
            }
            Err(error) => Err(error),
            Ok(()) => {
                rejections.remove(&key, &of_node);
                Ok(())
            }
        }
    }

    /// Deletes a pod that has ended.
    async fn remove(&self, pod: &Pod) -> Result<(), CallError> {
        let key = ObjectKey::of(pod);
        let api: Api<Pod> = Api::namespaced(self.writer.client()?, &key.namespace);
        let preconditions = Preconditions { uid: pod.uid(), resource_version: pod.resource_version() };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match call(format!("delete completed pod {key}"), api.delete(&key.name, &parameters)).await {
            Err(error) if matches!(error.code(), 404 | 409) => {
                debug!(pod = %key, error = &error as &dyn Error, "not deleted");
                Ok(())
            }
            done => done.map(|_| ()),
        }
    }

    /// Writes the status of the drain that was decided on.
    pub(super) async fn write_status(
        &self,
        drain: &NodeEvacuation,
        status: &NodeEvacuationStatus,
    ) -> Result<(), CallError> {
        let (name, mut next) = (drain.name_any(), drain.clone());
        next.status = Some(status.clone());
        let api: Api<NodeEvacuation> = Api::all(self.writer.client()?);
        let parameters = PostParams::default();
        let written = api.replace_status(&name, &parameters, &next);
        let written = call(format!("write the status of nodeevacuation {name}"), written).await?;
        self.view.apply(written);
        Ok(())
    }

    /// Deletes a drain that has ended. The finalizer keeps it until its nodes are released.
    async fn delete(&self, drain: &NodeEvacuation) -> Result<(), CallError> {
        let name = drain.name_any();
        let api: Api<NodeEvacuation> = Api::all(self.writer.client()?);
        let preconditions = Preconditions { uid: drain.uid(), resource_version: drain.resource_version() };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let delete = api.delete(&name, &parameters);
        match call(format!("delete nodeevacuation {name}, whose time to live is over"), delete).await {
            Err(error) if error.code() == 404 => Ok(()),
            done => done.map(|_| ()),
        }
    }

    async fn release_finalizer(&self, drain: &NodeEvacuation) -> Result<(), CallError> {
        let (name, mut next) = (drain.name_any(), drain.clone());
        next.metadata.finalizers.get_or_insert_default().retain(|finalizer| finalizer != DRAIN_FINALIZER);
        let api: Api<NodeEvacuation> = Api::all(self.writer.client()?);
        let parameters = PostParams::default();
        let write = api.replace(&name, &parameters, &next);
        match call(format!("release nodeevacuation {name}"), write).await {
            Err(error) if error.code() == 404 => Ok(()),
            done => done.map(|_| ()),
        }
    }
}
