//! Others have a say: responders, budgets, who asked before, and who makes the pod anew.

use evacuation_client::{Answer, Question, Responder};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::{Api, ResourceExt, api::DeleteParams};
use serde_json::json;

use crate::crashes::{AFTER_RESTARTS, Crashes, KEEPER};

#[tokio::test(flavor = "multi_thread")]
async fn a_responder_that_refuses_keeps_the_pod() {
    let scene = Crashes::new("refuses").await;
    scene.register_keeper().await;
    let keeper = Responder::named(scene.admin(), KEEPER, Some(scene.pods.namespace()));
    let keeper = tokio::spawn(keeper.run(|_: Question| async { Answer::refuse("a debugger is attached") }));
    let pods = scene.deployment("web", 1, &json!({AFTER_RESTARTS: "5"})).await;
    scene.crash(&pods[0], 5).await;
    scene.ended(&pods[0], "Failed Refused").await;
    assert!(scene.stays(&pods[0]).await);
    // That counts as an attempt: it is not asked again at once.
    scene.event_on(&pods[0], "RefreshBackoff", "not before").await;
    keeper.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_allows_nothing_holds() {
    let scene = Crashes::new("budget").await;
    let pods = scene.deployment("web", 1, &json!({AFTER_RESTARTS: "5"})).await;
    scene.pods.budget("none", ("app", "web"), 0).await.unwrap();
    scene.crash(&pods[0], 5).await;
    let name = scene.asked(&pods[0]).await.name_any();
    scene
        .pods
        .until(&name, "the budget holds", |e| {
            let conditions = e.status.iter().flat_map(|status| &status.conditions);
            conditions
                .into_iter()
                .any(|c| c.type_ == "Blocked" && c.status == "True" && c.reason == "BudgetAllowsNone")
        })
        .await
        .unwrap();
    assert!(scene.stays(&pods[0]).await);
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(scene.admin(), scene.pods.namespace());
    budgets.delete("none", &DeleteParams::default()).await.unwrap();
    scene.ended(&pods[0], "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_somebody_else_asked_is_not_asked_twice() {
    let scene = Crashes::new("joined").await;
    let five = json!({AFTER_RESTARTS: "5"});
    let (asked, other) =
        tokio::join!(scene.deployment("asked", 1, &five), scene.deployment("other", 1, &five));
    scene.register_keeper().await;
    let theirs = scene
        .create::<evacuation_api::Evacuation>(json!({
            "metadata": {"name": "drain"},
            "spec": {"target": {"pod": {"name": asked[0].name_any()}}, "requesters": [{"name": "test.evacuation.dev/asks"}]},
        }))
        .await;
    scene.crash(&asked[0], 5).await;
    scene.crash(&other[0], 5).await;
    scene.asked(&other[0]).await;
    let all = scene.evacuations_of(&asked[0]).await;
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].uid(), theirs.uid());
    assert_eq!(all[0].spec.requesters.len(), 1, "nobody joined it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_nobody_makes_anew_is_left_alone() {
    let scene = Crashes::new("alone").await;
    let spec = evacuation_e2e::PodSpec::default().annotation(AFTER_RESTARTS, "5");
    let pod = scene.pods.create("alone", &spec).await.unwrap();
    scene.crash(&pod, 5).await;
    let told = scene.event_on(&pod, "RefreshNotPossible", "").await;
    assert_eq!(told, "in a crash loop, and left alone: no controller would recreate it");
    assert!(scene.evacuations_of(&pod).await.is_empty());
}
