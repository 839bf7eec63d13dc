//! The process of the responders dies in the middle, and its successor goes on from what is on the pod.

use controlplane::eventually;
use evacuation_api::{Answer, RELEASED_ANNOTATION, REPLACEMENT_RESPONDER};
use evacuation_client::EvacuationHandle;
use evacuation_e2e::{
    Pool, Scene,
    scene::{Availability, PATIENCE, annotation},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use super::stays::is_as_before;
use crate::{
    options,
    workload::{Workload, is_owned, settled},
};

/// The platform whose responders these tests kill.
static CRASHES: Pool = Pool::new(1, options);

/// Removes an Evacuation without its finalizer, so that no responder learns of the cancellation.
async fn remove_at_once(scene: &Scene, evacuation: &EvacuationHandle) {
    let api = scene.evacuations();
    api.delete(evacuation.name(), &DeleteParams::default()).await.unwrap();
    let gone = eventually(PATIENCE, "the evacuation is gone", || async {
        let Some(mut found) = api.get_opt(evacuation.name()).await.unwrap() else {
            return Ok(());
        };
        found.metadata.finalizers = None;
        match api.replace(evacuation.name(), &PostParams::default(), &found).await {
            Ok(_) => Err("its finalizer is being removed".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    });
    gone.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_between_release_and_accept_is_followed_by_one_that_goes_on() {
    let scene = Scene::from_pool("killed", &CRASHES).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let node = scene.own_node().await;
    let workload = Workload { node: Some(node.clone()), ..Workload::default() };
    let pods = workload.deployment(&scene).await;
    let availability = Availability::watch(&scene).await;
    scene.cordon(&node, true).await;
    let evacuation = scene.evacuate(&pods[0]).await;
    scene.answered(&evacuation, Answer::Delay).await;
    scene.pod_until(&pods[0].name_any(), "it is released", |pod| !is_owned(pod)).await;
    scene.kill_built_in_responders();
    scene.cordon(&node, false).await;
    scene.start_built_in_responders().await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
    settled(&scene, 1).await;
    assert_eq!(availability.bounds().await.0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_while_it_gives_a_pod_back_is_followed_by_one_that_goes_on() {
    let scene = Scene::from_pool("halfway", &CRASHES).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let pods = Workload::of(1).deployment(&scene).await;
    scene.pods.budget("second", ("app", "web"), 0).await.unwrap();
    let evacuation = scene.evacuate(&pods[0]).await;
    scene.answered(&evacuation, Answer::Accept).await;
    // Nobody adopts the pod meanwhile.
    scene.platform().control_plane().controller_manager().pause().unwrap();
    evacuation.withdraw().await.unwrap();
    scene
        .pod_until(&pods[0].name_any(), "its label is back", |pod| {
            annotation(pod, RELEASED_ANNOTATION).is_some_and(|record| record.contains("returning"))
        })
        .await;
    scene.kill_built_in_responders();
    scene.platform().control_plane().controller_manager().resume().unwrap();
    scene.start_built_in_responders().await;
    is_as_before(&scene, &pods[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_given_back_although_its_evacuation_was_removed_while_no_responder_ran() {
    let scene = Scene::from_pool("removed", &CRASHES).await;
    scene.register("built-in", REPLACEMENT_RESPONDER, json!({})).await;
    let workload = Workload::of(1).annotated("controlplane.test/running-after", "20s");
    let pods = workload.deployment(&scene).await;
    let evacuation = scene.evacuate(&pods[0]).await;
    scene.answered(&evacuation, Answer::Delay).await;
    scene.kill_built_in_responders();
    remove_at_once(&scene, &evacuation).await;
    scene.start_built_in_responders().await;
    is_as_before(&scene, &pods[0]).await;
}
