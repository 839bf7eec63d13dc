//! What was recorded of what happened: the audit log, Events, Warnings.

use anyhow::bail;
use chrono::{DateTime, Utc};
use controlplane::{AuditEvent, eventually};
use evacuation_api::Evacuation;
use k8s_openapi::api::core::v1::Event;
use kube::{Api, Client, api::ListParams, client::Body};
use serde_json::Value;

use crate::scene::{PATIENCE, Scene};

/// The user that the controller is.
pub(crate) const CONTROLLER: &str = "system:serviceaccount:evacuation-system:evacuation-controller";

impl Scene {
    /// The calls of the eviction API for a pod of that name.
    pub(crate) fn evictions(&self, pod: &str) -> Vec<AuditEvent> {
        let mut all = self.pod_calls(pod, "create");
        all.retain(|event| event.subresource() == "eviction");
        all
    }

    /// The calls that deleted a pod of that name, kwok's aside.
    pub(crate) fn deletions(&self, pod: &str) -> Vec<AuditEvent> {
        let mut all = self.pod_calls(pod, "delete");
        all.retain(|event| event.user() != "kwok");
        all
    }

    fn pod_calls(&self, pod: &str, verb: &str) -> Vec<AuditEvent> {
        let mut all = self.platform.control_plane().audit_events().unwrap();
        all.retain(|event| {
            event.resource() == "pods"
                && event.verb() == verb
                && event.namespace() == self.namespace()
                && event.name() == pod
        });
        all
    }

    /// When the eviction arrived that the API took.
    pub(crate) fn evicted_at(&self, pod: &str) -> DateTime<Utc> {
        let evictions = self.evictions(pod);
        let taken = evictions.iter().find(|event| event.code() == 201);
        received(taken.unwrap_or_else(|| panic!("{pod} was not evicted: {evictions:?}")))
    }

    /// Waits for an Event on that object, and returns what it says.
    pub(crate) async fn event(&self, kind: &str, name: &str, reason: &str) -> String {
        let api: Api<Event> = Api::namespaced(self.admin(), self.namespace());
        let what = format!("{reason} on {kind} {name}");
        let found = eventually(PATIENCE, &what, || async {
            let events = api.list(&ListParams::default()).await?.items;
            let about = events.into_iter().filter(|event| {
                let on = &event.involved_object;
                on.kind.as_deref() == Some(kind) && on.name.as_deref() == Some(name)
            });
            let (wanted, others): (Vec<_>, Vec<_>) =
                about.partition(|event| event.reason.as_deref() == Some(reason));
            match wanted.into_iter().next() {
                Some(event) => Ok(event.message.unwrap_or_default()),
                None => bail!("{:?}", others.into_iter().map(|e| e.reason).collect::<Vec<_>>()),
            }
        });
        found.await.unwrap()
    }
}

/// When a request arrived.
pub(crate) fn received(event: &AuditEvent) -> DateTime<Utc> {
    let time = event.received().expect("a request has a time");
    DateTime::from_timestamp_micros(time.as_microsecond()).unwrap()
}

/// Posts an Evacuation and returns the code, the Warnings and the body of the reply.
pub(crate) async fn post(client: &Client, namespace: &str, query: &str, body: &Value) -> Posted {
    let path = format!("/apis/evacuation.dev/v1alpha1/namespaces/{namespace}/evacuations{query}");
    let request = http::Request::post(path)
        .header("Content-Type", "application/json")
        .body(Body::from(serde_json::to_vec(body).unwrap()))
        .unwrap();
    let reply = client.send(request).await.unwrap();
    let warnings = reply.headers().get_all("Warning").into_iter();
    let warnings = warnings.map(|value| value.to_str().unwrap().to_owned()).collect();
    let code = reply.status().as_u16();
    let bytes = reply.into_body().collect_bytes().await.unwrap();
    let body = serde_json::from_slice(&bytes).unwrap();
    Posted { code, warnings, body }
}

/// The reply to a posted Evacuation.
#[derive(Debug)]
pub(crate) struct Posted {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

impl Posted {
    /// The Evacuation that was created.
    pub(crate) fn created(self) -> Evacuation {
        assert_eq!(self.code, 201, "{self:?}");
        serde_json::from_value(self.body).unwrap()
    }
}
