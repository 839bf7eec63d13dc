//! The controller dies in the middle, and its successor goes on from what is on the pod.

use evacuation_api::{Answer, RELEASED_ANNOTATION, REPLACEMENT_RESPONDER};
use kube::ResourceExt;

use super::stays::is_as_before;
use crate::{
    availability::Availability,
    scene::{Scene, annotation},
    workload::{Workload, is_owned, settled},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_between_release_and_accept_is_followed_by_one_that_goes_on() {
    let scene = Scene::alone("killed").await;
    scene.register(REPLACEMENT_RESPONDER).await;
    let node = scene.own_node().await;
    let workload = Workload { node: Some(node.clone()), ..Workload::default() };
    let pods = workload.deployment(&scene).await;
    let availability = Availability::watch(&scene).await;
    scene.cordon(&node, true).await;
    let evacuation = scene.ask(&pods[0]).await;
    scene.answered(&evacuation, Answer::Delay).await;
    scene.pod(&pods[0].name_any(), "it is released", |pod| !is_owned(pod)).await;
    scene.kill_controller();
    scene.cordon(&node, false).await;
    scene.start_controller().await;
    scene.evicted(&evacuation).await;
    settled(&scene, 1).await;
    assert_eq!(availability.bounds().await.0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_while_it_gives_a_pod_back_is_followed_by_one_that_goes_on() {
    let scene = Scene::alone("halfway").await;
    scene.register(REPLACEMENT_RESPONDER).await;
    let pods = Workload::of(1).deployment(&scene).await;
    scene.pods.budget("second", ("app", "web"), 0).await.unwrap();
    let evacuation = scene.ask(&pods[0]).await;
    scene.answered(&evacuation, Answer::Accept).await;
    // Nobody adopts the pod meanwhile.
    scene.platform().control_plane().controller_manager().pause().unwrap();
    evacuation.withdraw().await.unwrap();
    scene
        .pod(&pods[0].name_any(), "its label is back", |pod| {
            annotation(pod, RELEASED_ANNOTATION).is_some_and(|record| record.contains("returning"))
        })
        .await;
    scene.kill_controller();
    scene.platform().control_plane().controller_manager().resume().unwrap();
    scene.start_controller().await;
    is_as_before(&scene, &pods[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_given_back_although_its_evacuation_was_removed_while_no_controller_ran() {
    let scene = Scene::alone("removed").await;
    scene.register(REPLACEMENT_RESPONDER).await;
    let workload = Workload::of(1).annotated("controlplane.test/running-after", "3s");
    let pods = workload.deployment(&scene).await;
    let evacuation = scene.ask(&pods[0]).await;
    scene.answered(&evacuation, Answer::Delay).await;
    scene.kill_controller();
    scene.remove_at_once(&evacuation).await;
    scene.start_controller().await;
    is_as_before(&scene, &pods[0]).await;
}
