//! Cancellation: the app learns that it can stay.

use chrono::{TimeDelta, Utc};
use controlplane::eventually;
use evacuation_api::{CANCELLATION_FINALIZER, ResponderState};
use evacuation_e2e::{
    App, PodSpec, Scene,
    scene::{PATIENCE, answer, first, refused_for, status, wanting},
};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

/// An app that delays for as long as its work takes, which is longer than any test.
async fn worker(scene: &Scene) -> (Pod, App) {
    let pod = scene.pod("app", PodSpec::watching()).await;
    let app = App::watching(scene.platform(), &pod, "finish_work", &["--work-seconds", "600"]).await.unwrap();
    (pod, app)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_watches_learns_of_a_withdrawal_and_says_that_it_knows() {
    let scene = Scene::new("withdrawn").await;
    let (pod, app) = worker(&scene).await;
    let evacuation = scene.ask(&pod, json!({})).await;
    app.says("give me 600 s").await.unwrap();
    scene
        .until(&evacuation, "a delay", |e| {
            status(e).responders.is_some_and(|all| all[0].delay_until.is_some())
        })
        .await;
    scene.withdraw(&evacuation).await.unwrap();
    app.says(&format!("{} was canceled", evacuation.name_any())).await.unwrap();
    let known = scene
        .until(&evacuation, "the cancellation is acknowledged", |e| first(e).cancellation_acknowledged)
        .await;
    assert_eq!(first(&known).state, ResponderState::Canceled);
    assert!(scene.stays(&pod).await);
    assert!(scene.evictions("app").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_deleted_goes_as_soon_as_the_app_knows() {
    let scene = Scene::new("deleted").await;
    let (pod, app) = worker(&scene).await;
    let evacuation = scene.ask(&pod, json!({})).await;
    app.says("give me 600 s").await.unwrap();
    let api = scene.evacuations();
    let deleted = Utc::now();
    api.delete(&evacuation.name_any(), &DeleteParams::default()).await.unwrap();
    scene.removed(&evacuation).await;
    app.says("was canceled").await.unwrap();
    assert!(Utc::now() < deleted + TimeDelta::seconds(20), "it did not wait for 30 s");
    assert!(scene.stays(&pod).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_deleted_is_held_until_whoever_was_asked_knows_and_blocks_nothing_meanwhile() {
    let scene = Scene::new("held").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    let api = scene.evacuations();
    api.delete(&evacuation.name_any(), &DeleteParams::default()).await.unwrap();
    let held = scene.ends(&evacuation, "Failed Canceled").await;
    assert!(held.metadata.deletion_timestamp.is_some());
    assert_eq!(held.finalizers(), [CANCELLATION_FINALIZER]);
    let again = scene.ask_and_reach(&pod, json!({})).await;
    let app = scene.client_of(&pod).await;
    answer(&app, &evacuation, json!({"acknowledgeCancellation": true})).await.unwrap();
    scene.removed(&evacuation).await;
    answer(&app, &again, json!({"answer": "Accept"})).await.unwrap();
    scene.ends(&again, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_nobody_was_asked_for_is_deleted_at_once() {
    let scene = Scene::new("unasked").await;
    let pod = scene.pod("app", PodSpec::default().label("app", "a")).await;
    scene.pods.budget("app", ("app", "a"), 0).await.unwrap();
    let evacuation = scene.ask(&pod, json!({})).await;
    scene.until_condition(&evacuation, "Blocked", "BudgetNotComputed").await;
    let api = scene.evacuations();
    let deleted = api.delete(&evacuation.name_any(), &DeleteParams::default()).await.unwrap();
    assert!(deleted.right().is_some(), "nothing holds it");
    scene.removed(&evacuation).await;
    assert!(scene.stays(&pod).await);
}

/// Kubernetes deletes the pods of a namespace first and waits for them; this one is held, so that the
/// Evacuation is active in a namespace that is on its way.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_terminating_namespace_anybody_who_may_delete_does_and_the_namespace_goes() {
    let scene = Scene::new("namespace").await;
    let alice = scene.user("alice", &["evacuation:requester"]).await;
    let bob = scene.user("bob", &["evacuation:requester"]).await;
    let (pod, going) =
        tokio::join!(scene.pod("app", PodSpec::watching()), scene.pod("going", PodSpec::watching()));
    let ask = async |pod: &Pod| {
        let entries = [json!({"name": "alice.example.com/repair"})];
        let wanted = wanting(&pod.name_any(), &entries);
        let api = scene.evacuations_as(&alice.client);
        let created = api.create(&PostParams::default(), &wanted).await.unwrap();
        scene.reached(&created, 0).await
    };
    let (held, other) = (ask(&pod).await, ask(&going).await);
    let api = scene.evacuations_as(&bob.client);
    let params = DeleteParams::default();
    refused_for(api.delete(&held.name_any(), &params).await, 403, "RequesterOfAnother");

    scene.finalizers(&pod, &["test.evacuation.dev/hold"]).await;
    let namespaces: Api<Namespace> = Api::all(scene.admin());
    namespaces.delete(scene.namespace(), &params).await.unwrap();
    // The server hears of it a little later.
    let deleted = eventually(PATIENCE, "the deletion is taken", || async {
        api.delete(&held.name_any(), &params).await.map(drop)
    });
    deleted.await.unwrap();
    scene.removed(&held).await;
    assert!(scene.pods.api().get_opt("app").await.unwrap().is_some());
    scene.ends(&other, "Evacuated GoneByOther").await;
    scene.finalizers(&pod, &[]).await;
    let gone = eventually(PATIENCE, "the namespace is gone", || async {
        match namespaces.get_opt(scene.namespace()).await.unwrap() {
            None => Ok(()),
            Some(found) => Err(format!("{:?}", found.status)),
        }
    });
    gone.await.unwrap();
}
