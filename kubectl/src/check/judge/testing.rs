//! Facts of an installation that works, and a check of an item.

use chrono::{DateTime, TimeDelta};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use super::super::{
    facts::{Facts, LeaseView},
    item::{Item, State},
    reader::Reply,
    rights::RIGHTS,
    trial::Trial,
};

/// Fails unless the item has that state, and a message with that part.
pub(super) fn check(item: &Item, state: State, part: &str) {
    assert!(item.state == state && item.message.contains(part), "{item:?}, not {state} {part:?}");
}

/// Facts of an installation that works, with the gateway.
pub(super) fn facts() -> Facts {
    let webhook = |name: &str| {
        json!({
            "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore",
            "clientConfig": {"caBundle": "YQ==", "service": {"namespace": "evacuation-system",
                             "name": "evacuation-gateway", "path": "/evict/token"}},
        })
    };
    let service = json!({
        "metadata": {"name": "v1alpha1.evacuation.dev"},
        "spec": {"groupPriorityMinimum": 1, "versionPriority": 1, "caBundle": "YQ==",
                 "service": {"name": "evacuation-apiserver", "namespace": "evacuation-system"}},
        "status": {"conditions": [{"type": "Available", "status": "True"}]},
    });
    let version = json!({
        "major": "1", "minor": "37", "gitVersion": "v1.37.1", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
    });
    let etcd = json!({"metadata": {"name": "evacuation-etcd"},
                      "spec": {"replicas": 3, "serviceName": "a", "selector": {}, "template": {}},
                      "status": {"replicas": 3, "readyReplicas": 3}});
    let reply = |body| Reply { body, ahead: Some(TimeDelta::zero()), warnings: vec![] };
    Facts {
        namespace: "evacuation-system".to_owned(),
        service_name: "evacuation-apiserver".to_owned(),
        kubernetes: Ok(Reply {
            body: serde_json::from_value(version).unwrap(),
            ahead: Some(TimeDelta::zero()),
            warnings: vec![],
        }),
        service: Ok(serde_json::from_value(service).unwrap()),
        discovery: Ok(reply(serde::de::IgnoredAny)),
        list: Ok(reply(serde::de::IgnoredAny)),
        readyz: Ok("[+]ping ok\n[+]storage ok\n[+]unreadable-objects ok\nreadyz check passed\n".to_owned()),
        version: Ok(format!("v{}", super::PLUGIN)),
        deployments: Ok(deployments(2)),
        stateful_sets: Ok(vec![serde_json::from_value(etcd).unwrap()]),
        lease: Ok(lease("evacuation-controller-0_a", 2)),
        built_in: Ok(lease("evacuation-built-in-responders-0_a", 2)),
        manager: Ok(lease("machine-0_b", 2)),
        scheduler: Ok(lease("machine-0_c", 2)),
        webhooks: Ok(serde_json::from_value(json!({
            "metadata": {"name": "evacuation-gateway"},
            "webhooks": [webhook("evict.a.b"), webhook("delete.a.b")],
        }))
        .unwrap()),
        trial: Some(Ok(Trial::Answered)),
        rights: RIGHTS.iter().map(|right| (right, Ok(true))).collect(),
        user_namespace: "shop".to_owned(),
    }
}

/// The Deployments, of each of which so many of two replicas are ready.
pub(super) fn deployments(ready: i32) -> Vec<Deployment> {
    let names = ["evacuation-apiserver", "evacuation-controller", "evacuation-gateway"];
    let deployment = |name: &str| {
        let pod = json!({"containers": [{"name": "a", "image": format!("{name}:v{}", super::PLUGIN)}]});
        let deployment = json!({
            "metadata": {"name": name},
            "spec": {"replicas": 2, "selector": {}, "template": {"spec": pod}},
            "status": {"readyReplicas": ready},
        });
        serde_json::from_value(deployment).unwrap()
    };
    names.map(deployment).to_vec()
}

/// The lease with that holder, renewed so many seconds ago.
pub(super) fn lease(holder: &str, age: i64) -> LeaseView {
    let lease = json!({
        "metadata": {"name": "evacuation-controller"},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    });
    let renewed: DateTime<chrono::Utc> = "2026-01-01T00:00:00Z".parse().unwrap();
    LeaseView {
        lease: serde_json::from_value(lease).unwrap(),
        now: renewed + TimeDelta::seconds(age),
        was_renewed: false,
    }
}
