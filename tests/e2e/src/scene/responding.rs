//! Responders of a scene: apps of pods, and responders that a selector registers.

use evacuation_api::{
    Evacuation, EvacuationResponder, EvacuationResponse, EvacuationResponseStatus, SelfEvacuation,
};
use evacuation_client::{Handler, Responder};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::PostParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::Scene;
use crate::pod_client;

/// A task that ends when this is dropped.
#[derive(Debug)]
pub struct Running(JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl From<JoinHandle<()>> for Running {
    fn from(task: JoinHandle<()>) -> Self {
        Self(task)
    }
}

impl Scene {
    /// The client of a pod's app, with the token that is bound to the pod.
    pub async fn client_of(&self, pod: &Pod) -> Client {
        pod_client(self.platform(), pod).await.unwrap()
    }

    /// Runs the app of a pod with that handler.
    pub async fn app(&self, pod: &Pod, handler: impl Handler) -> Running {
        let client = self.client_of(pod).await;
        tokio::spawn(Responder::of_pod(client).run(handler)).into()
    }

    /// Runs a responder of that name with that handler, as `admin`.
    pub fn responder(&self, name: &str, handler: impl Handler) -> Running {
        let responder = Responder::named(self.admin(), name, Some(self.namespace()));
        tokio::spawn(responder.run(handler)).into()
    }

    /// Registers a responder: every pod of the namespace, unless `more` holds another selector.
    pub async fn register(&self, name: &str, responder: &str, more: Value) -> EvacuationResponder {
        let mut spec = more;
        spec["name"] = json!(responder);
        if spec.get("selector").is_none() {
            spec["selector"] = json!({});
        }
        self.create(json!({"metadata": {"name": name}, "spec": spec})).await
    }
}

/// Answers an Evacuation of the pod whose client that is.
pub async fn answer(app: &Client, to: &Evacuation, spec: Value) -> kube::Result<EvacuationResponseStatus> {
    let api: Api<SelfEvacuation> = Api::namespaced(app.clone(), &to.namespace().unwrap());
    let posted: EvacuationResponse =
        api.create_subresource("respond", &to.name_any(), &PostParams::default(), &response(spec)).await?;
    Ok(posted.status.unwrap_or_default())
}

/// Answers an Evacuation by `evacuations/respond`.
pub async fn respond(
    client: &Client,
    to: &Evacuation,
    spec: Value,
) -> kube::Result<EvacuationResponseStatus> {
    let api: Api<Evacuation> = Api::namespaced(client.clone(), &to.namespace().unwrap());
    let posted: EvacuationResponse =
        api.create_subresource("respond", &to.name_any(), &PostParams::default(), &response(spec)).await?;
    Ok(posted.status.unwrap_or_default())
}

fn response(spec: Value) -> EvacuationResponse {
    EvacuationResponse::new(serde_json::from_value(spec).unwrap())
}
