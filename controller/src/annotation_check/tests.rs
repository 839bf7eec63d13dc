use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};

use super::*;
use crate::cluster::testing::cluster_without_api;

#[expect(clippy::needless_pass_by_value, reason = "tests pass the result of json!")]
fn pod(name: &str, owner: Value, annotations: Value) -> Pod {
    let owners = if owner.is_null() { json!([]) } else { json!([owner]) };
    serde_json::from_value(json!({"metadata": {
        "namespace": "shop", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1",
        "ownerReferences": owners, "annotations": annotations,
    }}))
    .unwrap()
}

fn of(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": format!("uid-{name}"), "controller": true})
}

/// The objects with a problem, as `KIND NAME: PROBLEM`.
fn found(check: &AnnotationCheck) -> Vec<String> {
    let problems = check.problems("shop");
    let text = |(owner, problem): &(ObjectReference, String)| {
        format!("{} {}: {problem}", owner.kind.as_deref().unwrap(), owner.name.as_deref().unwrap())
    };
    problems.values().map(text).collect()
}

#[tokio::test]
async fn the_owner_of_a_pod_with_an_unreadable_annotation_is_found() {
    let cluster = cluster_without_api();
    let check = AnnotationCheck::new(&cluster, true);
    let set: PartialObjectMeta<ReplicaSet> = serde_json::from_value(json!({"metadata": {
        "namespace": "shop", "name": "web-1", "uid": "uid-web-1", "resourceVersion": "1",
        "ownerReferences": [of("Deployment", "web")],
    }}))
    .unwrap();
    cluster.view.apply(set);
    let bad = json!({"evacuation.dev/responders": "[{}]"});
    cluster.view.apply(pod("web-1-a", of("ReplicaSet", "web-1"), bad.clone()));
    cluster.view.apply(pod("web-1-b", of("ReplicaSet", "web-1"), bad));
    let timeout = json!({"surge.evacuation.dev/timeout-seconds": "ten"});
    cluster.view.apply(pod("db-0", of("StatefulSet", "db"), timeout));
    cluster.view.apply(pod("alone", Value::Null, json!({"evacuation.dev/responder": "[]"})));
    let good = json!({"evacuation.dev/responders": "[]", "gate.evacuation.dev/open": "shop-x7k2p"});
    cluster.view.apply(pod("good", Value::Null, good));
    assert_eq!(
        found(&check),
        [
            "Pod alone: pod annotation evacuation.dev/responder: is not an annotation of evacuation.dev",
            "StatefulSet db: pod annotation surge.evacuation.dev/timeout-seconds: \"ten\" is not a whole number of seconds, of \
             at least 1",
            "Deployment web: pod annotation evacuation.dev/responders: [0].name: is required",
        ]
    );
}

#[tokio::test]
async fn a_namespace_is_looked_at_only_when_annotations_with_a_problem_change() {
    let cluster = cluster_without_api();
    let check = AnnotationCheck::new(&cluster, false);
    let queued = |old: Option<Value>, new: Option<Value>| {
        let pod = |annotations: Option<Value>| annotations.map(|a| Arc::new(pod("p", Value::Null, a)));
        let key = ObjectKey::new("shop", "p");
        check.observe(&Change { key, old: pod(old), new: pod(new), missing: false });
        let next = check.queue.next();
        let queued = futures::FutureExt::now_or_never(next);
        queued.inspect(|key| drop(check.queue.working(key))).is_some()
    };
    let bad = || Some(json!({"evacuation.dev/responders": "["}));
    let good = || Some(json!({"evacuation.dev/responders": "[]"}));
    assert!(queued(None, bad()) && queued(good(), bad()) && queued(bad(), good()) && queued(bad(), None));
    assert!(!queued(bad(), bad()) && !queued(None, good()) && !queued(good(), None));
}

#[tokio::test]
async fn one_problem_of_one_owner_is_reported_once_and_a_namespace_has_a_bound() {
    let cluster = cluster_without_api();
    let check = AnnotationCheck::new(&cluster, false);
    let reported = |problems: &[(&str, &str)]| {
        let owner = |uid: &str| ObjectReference { uid: Some(uid.to_owned()), ..ObjectReference::default() };
        let problems =
            problems.iter().map(|(uid, text)| ((*uid).to_owned(), (owner(uid), (*text).to_owned())));
        check.unreported("shop", problems.collect()).len()
    };
    assert_eq!(reported(&[("1", "a"), ("2", "b")]), 2);
    assert_eq!(reported(&[("1", "a"), ("2", "b")]), 0);
    assert_eq!(reported(&[("1", "a"), ("2", "c")]), 1);
    // A mistake that was corrected and comes back is reported again.
    assert_eq!(reported(&[("2", "c")]), 0);
    assert_eq!(reported(&[("1", "a"), ("2", "c")]), 1);

    for number in 0..MAX_OWNERS + 10 {
        let bad = json!({"evacuation.dev/responders": "["});
        cluster.view.apply(pod(&format!("p-{number}"), Value::Null, bad));
    }
    assert_eq!(check.problems("shop").len(), MAX_OWNERS);
}
