//! Evictions with content that only their caller can have chosen.

use evacuation_e2e::{
    PodSpec,
    scene::{Bystander, refused},
};
use serde_json::{Value, json};

use crate::stage::Stage;

/// # Attack
///
/// - Attacker: a user who may evict pods
/// - Act: sends an Eviction with times that no decoder takes, or one whose review is larger than the gateway
///   takes, so that the kube-apiserver gets no answer and lets the eviction pass
/// - Promise: 11
#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_whose_content_cannot_be_read_does_not_pass() {
    let stage = Stage::new("content").await;
    let bystander = Bystander::new(&stage).await;
    let silent = json!([{"name": "self", "timeoutSeconds": 3600}]);
    let pod = stage.app_pod("app", PodSpec::registered(&silent)).await;
    let late = "9999-12-31T23:59:59Z";
    // Each of these takes six bytes in the review.
    let large = "<".repeat(2_900_000);
    for (metadata, code) in [
        (json!({"name": "app", "creationTimestamp": late}), 429),
        (json!({"name": "app", "deletionTimestamp": late}), 429),
        (json!({"name": "app", "annotations": {"a": large}}), 413),
    ] {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata});
        let path = format!("/api/v1/namespaces/{}/pods/app/eviction", stage.namespace());
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(serde_json::to_vec(&eviction).unwrap()).unwrap();
        let told = refused(stage.admin().request::<Value>(request).await);
        assert_eq!(told.code, code, "{told:?}");
    }
    bystander.drains(&stage).await;
    assert!(stage.stays(&pod).await);
}
