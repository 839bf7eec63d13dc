//! Pods of every length of name that Kubernetes allows.

use evacuation_e2e::{
    PodSpec,
    scene::{answer, refused},
};
use kube::{ResourceExt, api::EvictParams};
use serde_json::json;

use crate::stage::{Stage, assert_has, run, start};

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

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_deletes_and_explains_a_pod_with_the_longest_legal_name() {
    let stage = Stage::new("longest").await;
    let name = name(253);
    let pod = stage.app_pod(&name, PodSpec::watching()).await;
    let delete = start(stage.kubectl(&["delete", "pod", &name]));
    let evacuation = stage.evacuation_of(&name).await;
    stage.reached(&evacuation, 0).await;
    let why = run(stage.kubectl(&["evacuate", "why", &name])).await;
    assert!(why.success(), "{why:?}");
    let asked = format!("Evacuation {}: ", evacuation.name_any());
    assert_has(&why.stdout, &[&format!("pod {}/{name} on ", stage.namespace()), &asked]);
    assert!(stage.stays(&pod).await);

    answer(&stage.client_of(&pod).await, &evacuation, json!({"answer": "Accept"})).await.unwrap();
    let deleted = delete.await.unwrap();
    assert!(deleted.success(), "{deleted:?}");
    stage.pods.gone(&pod).await.unwrap();
    stage.ends(&evacuation, "Evacuated GoneByOther").await;
    let said = stage.event("Pod", &name, "Evacuated").await;
    assert!(said.contains("the pod is gone"), "{said}");
}

/// The gateway itself tells of a call that passes unasked.
#[tokio::test(flavor = "multi_thread")]
async fn a_forced_deletion_of_a_pod_with_the_longest_legal_name_is_told_by_an_event() {
    let stage = Stage::new("forcelong").await;
    let name = name(253);
    let pod = stage.app_pod(&name, PodSpec::watching()).await;
    let deleted = run(stage.kubectl(&["delete", "pod", &name, "--force", "--grace-period=0"])).await;
    assert!(deleted.success(), "{deleted:?}");
    stage.pods.gone(&pod).await.unwrap();
    let said = stage.event("Pod", &name, "DeletionForced").await;
    assert!(said.contains("admin forced the deletion"), "{said}");
    assert!(stage.all_evacuations().await.is_empty());
}
