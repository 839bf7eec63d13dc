use evacuation_api::Evacuation;
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::cluster::testing::cluster_without_api;

fn pod(more: &Value) -> Pod {
    let mut pod = json!({
        "metadata": {"namespace": "shop", "name": "db-0", "uid": "u", "resourceVersion": "1",
                     "annotations": {"evacuation.dev/responders": "[{\"name\": \"self\"}]"}},
        "status": {"phase": "Running"},
    });
    for (part, fields) in more.as_object().unwrap() {
        pod[part].as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    }
    serde_json::from_value(pod).unwrap()
}

fn terminating() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "2"}})
}

/// Returns the number of pods that are named when a pod changes like that, with these objects around it.
async fn named(old: &Value, new: Option<&Value>, around: impl FnOnce(&Cluster)) -> u64 {
    let cluster = cluster_without_api();
    let namespace: PartialObjectMeta<Namespace> =
        serde_json::from_value(json!({"metadata": {"name": "shop", "uid": "n", "resourceVersion": "1"}}))
            .unwrap();
    cluster.view.apply(namespace);
    around(&cluster);
    let unasked = Unasked::new(&cluster);
    let key = ObjectKey::new("shop", "db-0");
    let (old, new) = (Some(Arc::new(pod(old))), new.map(|new| Arc::new(pod(new))));
    let change = Change { key: key.clone(), old, new, missing: false };
    unasked.handle(&ClusterEvent::Pod(&change));
    unasked.reconcile(&key).await.unwrap();
    unasked.reconcile(&key).await.unwrap();
    unasked.pods.get()
}

#[tokio::test]
async fn a_pod_whose_deletion_begins_without_an_evacuation_is_named_once() {
    let plain = json!({});
    assert_eq!(named(&plain, Some(&terminating()), |_| {}).await, 1);
    assert_eq!(named(&plain, None, |_| {}).await, 1, "it was gone at once");
    assert_eq!(named(&plain, Some(&json!({"metadata": {"uid": "other"}})), |_| {}).await, 1, "replaced");
    assert_eq!(named(&plain, Some(&plain), |_| {}).await, 0, "it stays");
    assert_eq!(named(&terminating(), None, |_| {}).await, 0, "it was named when its deletion began");
}

#[tokio::test]
async fn a_pod_is_named_unless_it_was_asked_or_ended_or_registers_nobody() {
    let plain = json!({});
    let evacuation = |uid: &str| -> Evacuation {
        serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "e", "uid": "e", "resourceVersion": "1"},
            "spec": {"target": {"pod": {"name": "db-0", "uid": uid}}},
        }))
        .unwrap()
    };
    assert_eq!(named(&plain, None, |cluster| cluster.view.apply(evacuation("u"))).await, 0);
    let asked = json!("2026-01-01T00:00:00Z");
    for (state, active_time, attempts, expected) in [
        ("Inactive", &json!(null), 0, 1),
        ("Canceled", &json!(null), 0, 1),
        ("Inactive", &json!(null), 1, 0),
        ("Interrupted", &json!(null), 0, 0),
        ("Active", &asked, 0, 0),
        ("Canceled", &asked, 0, 0),
    ] {
        let mut of_pod = evacuation("u");
        let responder = json!({"name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 60,
                               "state": state, "activeTime": active_time});
        let eviction = json!({"attempts": attempts});
        of_pod.status =
            serde_json::from_value(json!({"responders": [responder], "eviction": eviction})).unwrap();
        let number = named(&plain, None, |cluster| cluster.view.apply(of_pod)).await;
        assert_eq!(number, expected, "{state} since {active_time}, {attempts} attempts");
    }
    assert_eq!(named(&plain, None, |cluster| cluster.view.apply(evacuation("earlier"))).await, 1);
    let ended = json!({"status": {"phase": "Succeeded"}});
    assert_eq!(named(&ended, None, |_| {}).await, 0);
    let unregistered = json!({"metadata": {"annotations": {}}});
    assert_eq!(named(&unregistered, None, |_| {}).await, 0);
    let going: PartialObjectMeta<Namespace> = serde_json::from_value(json!({
        "metadata": {"name": "shop", "uid": "n", "resourceVersion": "2",
                     "deletionTimestamp": "2026-01-01T00:00:00Z"},
    }))
    .unwrap();
    assert_eq!(named(&plain, None, |cluster| cluster.view.apply(going)).await, 0);
}

#[tokio::test]
async fn a_process_that_begins_to_lead_looks_at_pods_that_were_deleted_before() {
    let cluster = cluster_without_api();
    let unasked = Unasked::new(&cluster);
    cluster.features.register(&[Arc::clone(&unasked) as Arc<dyn Feature>]);
    cluster.stand_by();
    let key = ObjectKey::new("shop", "db-0");
    let old = Some(Arc::new(pod(&json!({}))));
    unasked.handle(&ClusterEvent::Pod(&Change { key: key.clone(), old, new: None, missing: false }));
    assert_eq!(unasked.queue.ready(), 0);
    cluster.begin_term(CancellationToken::new());
    assert_eq!(unasked.queue.next().await, key);
}

#[test]
fn the_message_blames_no_cause_that_is_not_known() {
    for cause in ["its caller", "its namespace", "forced deletion", "outage", "did not reach a gateway"] {
        assert!(NOTE.contains(cause), "{cause}");
    }
    assert!(NOTE.contains("Possible causes"), "{NOTE}");
    assert!(!NOTE.contains("was not there"), "{NOTE}");
}
