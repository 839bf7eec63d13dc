use std::sync::Mutex;

use kube::ResourceExt;
use serde_json::{Value, json};

use super::*;
use crate::cluster::{
    lock,
    testing::{cluster_with_api, last, not_found},
};

fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [], "nodeName": "node-a", "schedulingGroup": {"podGroupName": "gang"}},
        "status": {"phase": "Running"},
    }))
    .unwrap()
}

/// An Evacuation of pod `one`, for which alice asks harder than bob.
fn asked_by_two() -> Evacuation {
    let time = "2026-01-02T00:00:00Z";
    let entry = |owner: &str, policy: &str| json!({"name": "a.b/r", "owner": owner, "onRefusal": policy});
    let recorded =
        |user: &str| json!({"name": "a.b/r", "owner": user, "user": user, "groups": [], "time": time});
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "of-one", "uid": "e", "resourceVersion": "1", "creationTimestamp": time},
        "spec": {"target": {"pod": {"name": "one", "uid": "one"}},
            "requesters": [entry("alice", "Override"), entry("bob", "Wait")]},
        "status": {"requesters": [recorded("alice"), recorded("bob")], "policy": {"onRefusal": "Override"}},
    }))
    .unwrap()
}

#[tokio::test]
async fn where_the_hardest_requester_has_no_right_the_next_one_asks() {
    let owners = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&owners);
    let (cluster, _) = cluster_with_api(move |request, sent: Value| match last(request) {
        "gang" => {
            let group = json!({"metadata": {"name": "gang"}, "spec": {"disruptionMode": {"all": {}}}});
            (200, group)
        }
        "evacuations" => {
            let owner = sent["spec"]["requesters"][0]["owner"].as_str().unwrap().to_owned();
            let is_alice = owner == "alice";
            lock(&seen).push(owner);
            let denied = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden"});
            let mut created = sent;
            created["metadata"]["namespace"] = json!("ns");
            created["metadata"]["uid"] = json!("new");
            created["metadata"]["resourceVersion"] = json!("2");
            created["metadata"]["name"] = json!("of-two");
            if is_alice { (403, denied) } else { (201, created) }
        }
        _ => not_found(),
    });
    for name in ["one", "two"] {
        cluster.view.apply(pod(name));
    }
    cluster.view.apply(asked_by_two());
    let (groups, key) = (PodGroups::new(&cluster), ObjectKey::new("ns", "gang"));
    assert!(matches!(groups.reconcile(&key).await.unwrap(), Requeue::At(_)), "the next one counts soon");
    assert!(matches!(groups.reconcile(&key).await.unwrap(), Requeue::At(_)), "and the first one again later");
    assert_eq!(*lock(&owners), ["alice", "bob"]);
    let asked = cluster.view.index().asked_in(&key);
    assert_eq!(
        asked.iter().map(|evacuation| evacuation.name_any()).collect::<Vec<_>>(),
        ["of-one", "of-two"]
    );
}
