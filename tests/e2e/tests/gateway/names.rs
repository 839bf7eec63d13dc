//! Pods of every length of name that Kubernetes allows.

use evacuation_e2e::{
    PodSpec,
    scene::{answer, refused},
};
use kube::{ResourceExt, api::EvictParams};
use serde_json::json;

use crate::stage::Stage;

/// A legal name of that length, with a dot where the server cuts the name of an Evacuation.
fn name(length: usize) -> String {
    let labels: String = "abcdefghi-abcdefghi-abcdefghi-abcdefghi-abcdefghi-abcdefg.".repeat(5);
    let name = &labels[..length - 1];
    format!("{name}z")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_with_a_name_of_any_legal_length_is_asked() {
    let stage = Stage::new("names").await;
    for length in [1, 57, 58, 59, 252, 253] {
        let name = name(length);
        let pod = stage.app_pod(&name, PodSpec::watching()).await;
        let told = refused(stage.pods.api().evict(&name, &EvictParams::default()).await);
        assert_eq!(told.code, 429, "{length}: {told:?}");
        let asked = stage.evacuation_of(&name).await;
        assert!(asked.name_any().len() <= 63, "{}", asked.name_any());
        stage.reached(&asked, 0).await;
        answer(&stage.client_of(&pod).await, &asked, json!({"answer": "Accept"})).await.unwrap();
        stage.pods.gone(&pod).await.unwrap();
    }
}
