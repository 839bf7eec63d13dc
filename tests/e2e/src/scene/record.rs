//! Records of what happened: the audit log, Events, Warnings.

use anyhow::bail;
use chrono::{DateTime, Utc};
use controlplane::{AuditEvent, eventually};
use evacuation_api::Evacuation;
use k8s_openapi::{api::core::v1::Event, jiff::Timestamp};
use kube::{Client, api::ListParams, client::Body};
use serde_json::Value;

use super::{PATIENCE, Scene};

/// The user name of the controller.
pub const CONTROLLER: &str = "system:serviceaccount:evacuation-system:evacuation-controller";

impl Scene {
    /// The calls of the eviction API for pods of the namespace.
    pub fn all_evictions(&self) -> Vec<AuditEvent> {
        let mut all = self.control_plane().audit_events().unwrap();
        all.retain(|event| event.namespace() == self.namespace() && event.subresource() == "eviction");
        all
    }

    /// The calls of the eviction API for pods of the namespace that passed because a webhook did not answer.
    pub fn failed_open(&self) -> Vec<AuditEvent> {
        let mut all = self.all_evictions();
        all.retain(|event| {
            let annotations = event.value().get("annotations").and_then(|all| all.as_object());
            annotations.into_iter().flatten().any(|(key, _)| key.starts_with("failed-open"))
        });
        all
    }

    /// The calls of the eviction API for a pod of that name.
    pub fn evictions(&self, pod: &str) -> Vec<AuditEvent> {
        self.evictions_in(self.namespace(), pod)
    }

    fn evictions_in(&self, namespace: &str, pod: &str) -> Vec<AuditEvent> {
        let mut all = self.pod_calls(namespace, pod, "create");
        all.retain(|event| event.subresource() == "eviction");
        all
    }

    /// The calls that deleted a pod of that name, except kwok's.
    pub fn deletions(&self, pod: &str) -> Vec<AuditEvent> {
        self.deletions_in(self.namespace(), pod)
    }

    fn deletions_in(&self, namespace: &str, pod: &str) -> Vec<AuditEvent> {
        let mut all = self.pod_calls(namespace, pod, "delete");
        all.retain(|event| event.user() != "kwok");
        all
    }

    fn pod_calls(&self, namespace: &str, pod: &str, verb: &str) -> Vec<AuditEvent> {
        let mut all = self.control_plane().audit_events().unwrap();
        all.retain(|event| {
            event.resource() == "pods"
                && event.verb() == verb
                && event.namespace() == namespace
                && event.name() == pod
        });
        all
    }

    /// Asserts that no call evicted or deleted a pod of that name until now.
    pub fn left_alone(&self, pod: &str) {
        let mut taken = [self.evictions(pod), self.deletions(pod)].concat();
        taken.retain(took_place);
        assert!(taken.is_empty(), "{pod} was not left alone: {taken:?}");
    }

    /// Asserts that one call evicted a pod of that name, and that no call deleted it. Returns the time at
    /// which the eviction arrived.
    pub fn evicted_once(&self, pod: &str) -> DateTime<Utc> {
        self.evicted_once_in(self.namespace(), pod)
    }

    /// The same in another namespace.
    pub fn evicted_once_in(&self, namespace: &str, pod: &str) -> DateTime<Utc> {
        let (mut evictions, mut deletions) =
            (self.evictions_in(namespace, pod), self.deletions_in(namespace, pod));
        evictions.retain(took_place);
        deletions.retain(took_place);
        assert_eq!((evictions.len(), deletions.len()), (1, 0), "{pod}: {evictions:?} {deletions:?}");
        received(&evictions[0])
    }

    /// The times of the evictions in the namespace that succeeded, dry runs aside.
    pub fn evicted(&self) -> Vec<Timestamp> {
        let calls = self.all_evictions().into_iter();
        calls
            .filter(|event| event.stage() == "ResponseComplete" && event.code() == 201)
            .filter(|event| !is_dry_run(event))
            .filter_map(|event| event.received())
            .collect()
    }

    /// The time at which the eviction of that pod arrived that succeeded.
    pub fn evicted_at(&self, pod: &str) -> DateTime<Utc> {
        let evictions = self.evictions(pod);
        let taken = evictions.iter().find(|event| event.code() == 201);
        received(taken.unwrap_or_else(|| panic!("{pod} was not evicted: {evictions:?}")))
    }

    /// Waits for an Event on that object, and returns its message.
    pub async fn event(&self, kind: &str, name: &str, reason: &str) -> String {
        let what = format!("{reason} on {kind} {name}");
        self.event_where(&what, |event| {
            let on = &event.involved_object;
            on.kind.as_deref() == Some(kind)
                && on.name.as_deref() == Some(name)
                && event.reason.as_deref() == Some(reason)
        })
        .await
    }

    /// Waits for an Event as wanted, and returns its message.
    pub async fn event_where(&self, what: &str, wanted: impl Fn(&Event) -> bool) -> String {
        let api = self.api::<Event>();
        let found = eventually(PATIENCE, what, || async {
            let events = api.list(&ListParams::default()).await?.items;
            match events.iter().find(|event| wanted(event)) {
                Some(event) => Ok(event.message.clone().unwrap_or_default()),
                None => bail!("{:?}", events.iter().map(|e| e.reason.as_deref()).collect::<Vec<_>>()),
            }
        });
        found.await.unwrap()
    }
}

/// Returns true for an eviction or a deletion that succeeded, dry runs aside.
fn took_place(event: &AuditEvent) -> bool {
    (200..300).contains(&event.code()) && !is_dry_run(event)
}

/// Returns true for an eviction that asks for a dry run, in its body or in its query.
fn is_dry_run(event: &AuditEvent) -> bool {
    let in_query = event.value()["requestURI"].as_str().is_some_and(|uri| uri.contains("dryRun="));
    in_query || event.value().pointer("/requestObject/deleteOptions/dryRun").is_some()
}

/// The time at which a request arrived.
pub fn received(event: &AuditEvent) -> DateTime<Utc> {
    let time = event.received().expect("a request has a time");
    DateTime::from_timestamp_micros(time.as_microsecond()).unwrap()
}

/// Posts an Evacuation and returns the code, the Warnings and the body of the reply.
pub async fn post(client: &Client, namespace: &str, query: &str, body: &Value) -> Posted {
    post_to(client, &format!("namespaces/{namespace}/evacuations{query}"), body).await
}

/// Posts an object of our API to the path of its resource, and returns the same.
pub async fn post_to(client: &Client, resource: &str, body: &Value) -> Posted {
    let path = format!("/apis/evacuation.dev/v1alpha1/{resource}");
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

/// The reply to a posted object.
#[derive(Debug)]
pub struct Posted {
    /// The HTTP status code.
    pub code: u16,
    /// The Warning headers.
    pub warnings: Vec<String>,
    /// The body.
    pub body: Value,
}

impl Posted {
    /// The Evacuation that was created.
    pub fn created(self) -> Evacuation {
        assert_eq!(self.code, 201, "{self:?}");
        serde_json::from_value(self.body).unwrap()
    }
}
