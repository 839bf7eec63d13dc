//! Traces join those of the kube-apiserver.

use std::time::Duration;

use controlplane::eventually;
use kube::Client;
use serde_json::json;

use crate::{
    collector::{Collector, Received},
    stage::Stage,
};

const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n";
const PANS: &str = "/apis/own.kitchen.dev/v1/namespaces/default/pans";

async fn create(client: &Client, name: &str, trace: &str) {
    let pan = json!({
        "apiVersion": "own.kitchen.dev/v1", "kind": "Pan", "metadata": {"name": name}, "spec": {"size": 1},
    });
    let request = http::Request::post(PANS)
        .header("content-type", "application/json")
        .header("traceparent", format!("00-{trace}-b7ad6b7169203331-01"))
        .body(pan.to_string().into_bytes())
        .unwrap();
    client.request_text(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_one_trace_through_kube_apiserver_and_only_trusted_callers_decide_on_sampling() {
    let (collector, address) = Collector::start();
    let stage = Stage::open(POLICY, &address).await;
    let trusted = "0af7651916cd43dd8448eb211c80319c";
    let forced = "1af7651916cd43dd8448eb211c80319c";
    // The administrator of the control plane is in system:masters.
    create(&stage.control_plane.client().unwrap(), "a", trusted).await;
    let jane = stage.control_plane.client_for_user("jane", Some("cooks")).await.unwrap();
    let binding = ["create", "clusterrolebinding", "jane", "--clusterrole=cluster-admin", "--user=jane"];
    assert!(stage.control_plane.kubectl(&binding).await.unwrap().success());
    eventually(Duration::from_secs(20), "jane has her role", || {
        jane.request_text(http::Request::get(PANS).body(Vec::new()).unwrap())
    })
    .await
    .unwrap();
    create(&jane, "b", forced).await;

    // The shutdown exports what waits.
    stage.traces.shutdown().await;
    let of = |service: &str, trace: &str| -> Vec<Received> {
        let spans = collector.spans().into_iter();
        spans.filter(|span| span.service == service && span.trace == trace).collect()
    };
    let ours = of("pans", trusted);
    let find = |name: &str| {
        let found = ours.iter().find(|span| span.name == name);
        found.unwrap_or_else(|| panic!("no {name} in {ours:#?}")).clone()
    };
    let request = find("POST /apis/own.kitchen.dev/v1/namespaces/{:namespace}/pans");
    for name in ["authentication", "priorityandfairness", "authorization", "Create"] {
        assert_eq!(find(name).parent, request.id, "{name}");
    }
    let handler = find("Create");
    for name in ["admission", "Create etcd3"] {
        assert_eq!(find(name).parent, handler.id, "{name}");
    }
    for attribute in ["audit-id", "http.request.method", "http.response.status_code", "http.target"] {
        assert!(request.attributes.iter().any(|key| key == attribute), "{attribute}: {request:?}");
    }
    assert!(find("Create etcd3").attributes.contains(&"key".to_owned()));

    eventually(Duration::from_secs(20), "the kube-apiserver exports its part of the trace", || async {
        let theirs = of("apiserver", trusted);
        let parent = theirs.iter().find(|span| span.id == request.parent);
        parent.map(|_| ()).ok_or(format!("{theirs:#?}"))
    })
    .await
    .unwrap();
    let forced_spans: Vec<Received> =
        collector.spans().into_iter().filter(|span| span.trace == forced).collect();
    assert!(forced_spans.is_empty(), "{forced_spans:?}");
}
