//! Pods that come back under their names, as those of a StatefulSet.

use evacuation_e2e::{
    PodSpec,
    scene::{answer, refused, refused_saying},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::EvictParams};
use serde_json::json;

use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_reaches_the_successor_is_told_that_the_pod_is_gone_and_does_not_move_it() {
    let stage = Stage::new("successor").await;
    let pod = stage.app_pod("db-0", PodSpec::watching()).await;
    let evict = EvictParams::default();
    refused_saying(stage.pods.api().evict("db-0", &evict).await, 429, "responder self was asked");
    let evacuation = stage.evacuation_of("db-0").await;
    stage.reached(&evacuation, 0).await;
    answer(&stage.client_of(&pod).await, &evacuation, json!({"answer": "Accept"})).await.unwrap();
    stage.ends(&evacuation, "Evacuated Evicted").await;
    let successor = stage.app_pod("db-0", PodSpec::watching()).await;
    let told = refused(stage.pods.api().evict("db-0", &evict).await);
    assert_eq!((told.code, told.reason.as_str()), (404, "NotFound"), "{told:?}");
    assert!(told.message.contains("another pod has its name"), "{told:?}");
    assert!(stage.stays(&successor).await);
    assert_eq!(stage.all_evacuations().await.len(), 1, "the successor was not asked");

    // Another user means the successor.
    let user = stage.user("other", &["edit"]).await;
    let right = json!({"resource": "pods", "subresource": "eviction", "verb": "create"});
    stage.decided(&user.name, &right, true).await;
    let pods: Api<Pod> = Api::namespaced(user.client, stage.namespace());
    refused_saying(pods.evict("db-0", &evict).await, 429, "responder self was asked");
    assert_eq!(stage.all_evacuations().await.len(), 2);
}
