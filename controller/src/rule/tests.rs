//! The rules against an API whose objects change between two rounds of work.

use evacuation_api::{MarkedNodePhase, NodeEvacuation, NodeEvacuationRule};
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::Rules;
use crate::cluster::{
    Cluster, Feature, ObjectKey, lock,
    testing::{Asked, cluster_with_api},
};

/// The rule `spot` in a cluster whose one node has its mark. The API stores every write.
fn marked() -> (Cluster, Asked) {
    let mut version = 1;
    let (cluster, asked) = cluster_with_api(move |request, mut stored| {
        version += 1;
        stored["metadata"]["resourceVersion"] = json!(version.to_string());
        if request.method == "POST" {
            stored["metadata"]["uid"] = json!(format!("uid-{version}"));
        }
        (200, stored)
    });
    let rule: NodeEvacuationRule = serde_json::from_value(json!({
        "metadata": {"name": "spot", "uid": "r", "resourceVersion": "1"},
        "spec": {"marks": [{"taint": {"key": "spot"}}], "maxNodes": 1},
    }))
    .unwrap();
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "n", "uid": "n", "resourceVersion": "1"},
        "spec": {"taints": [{"key": "spot", "effect": "NoSchedule"}]},
    }))
    .unwrap();
    cluster.view.apply(rule);
    cluster.view.apply(node);
    (cluster, asked)
}

#[tokio::test]
async fn a_drain_that_a_user_deletes_as_soon_as_it_is_opened_is_not_opened_again() {
    let (cluster, asked) = marked();
    let rules = Rules::new(&cluster);
    let key = ObjectKey::new("", "rules");
    for _ in 0..2 {
        rules.reconcile(&key).await.unwrap();
    }
    assert_eq!(lock(&asked).split_off(0), ["PUT status", "POST nodeevacuations"]);
    let drain = cluster.view.index().drains().next().map(|(_, drain)| NodeEvacuation::clone(drain));
    cluster.view.delete(&drain.unwrap());
    for _ in 0..3 {
        rules.reconcile(&key).await.unwrap();
    }
    assert_eq!(lock(&asked).split_off(0), ["PUT status"]);
    let phases: Vec<_> = {
        let index = cluster.view.index();
        let status = index.rules().next().unwrap().status.clone().unwrap();
        status.nodes.iter().map(|node| node.phase).collect()
    };
    assert_eq!(phases, [MarkedNodePhase::Dismissed]);
}
