//! Refusals, budgets and deletions: they stay those of the Evacuation.

use evacuation_client::Answer;
use evacuation_e2e::{PodSpec, scene::quick};
use kube::api::DeleteParams;
use serde_json::json;

use crate::stage::{AWAITING, DELETED, EVICTOR, LEFT_ALONE, Stage, said, states, words};

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_refuses_holds_the_eviction_and_the_conditions_say_why() {
    let stage = Stage::new("refusal").await;
    let pod = stage.pods.create("db-0", &quick(PodSpec::watching())).await.unwrap();
    let _app = stage.app(&pod, |_| async { Answer::refuse("a backup runs") }).await;
    stage.request("move", "acme.io/balance", &pod).await;
    let eviction = stage
        .eviction(&pod, "the reason is shown", |eviction| {
            let conditions = eviction.status.as_ref().and_then(|status| status.conditions.clone());
            conditions.unwrap_or_default().iter().any(|c| c.message.contains("a backup runs"))
        })
        .await;
    assert_eq!(words(eviction.status.as_ref().unwrap().conditions.as_deref()), AWAITING);
    assert!(states(&eviction).is_empty(), "no responder of that API was asked");
    assert!(stage.stays(&pod).await);

    // Who deletes the Evacuation decides against the requesters.
    let evacuation =
        stage.evacuations().list(&kube::api::ListParams::default()).await.unwrap().items.remove(0);
    let name = evacuation.metadata.name.unwrap();
    stage.evacuations().delete(&name, &DeleteParams::default()).await.unwrap();
    stage.reports("move", LEFT_ALONE).await;
    let eviction = stage.eviction(&pod, "it ended", |e| {
        words(e.status.as_ref().and_then(|status| status.conditions.as_deref())) == LEFT_ALONE
    });
    eviction.await;
    assert!(stage.stays(&pod).await);
    assert_eq!(stage.evictions_of(&pod).await.len(), 1, "it is not asked again by itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_holds_the_evictor_which_names_it_and_goes_on_when_it_frees() {
    let stage = Stage::new("budget").await;
    let pod = stage.pod_with("db-0", json!([])).await;
    stage.pods.budget("db", ("app", "db-0"), 0).await.unwrap();
    stage.request("move", "acme.io/balance", &pod).await;
    let eviction = stage
        .eviction(&pod, "the budget is named", |eviction| {
            states(eviction) == [(EVICTOR, "Active")]
                && said(eviction, EVICTOR).message.as_deref().is_some_and(|message| message.contains("db"))
        })
        .await;
    assert!(said(&eviction, EVICTOR).heartbeat_time.is_some());
    stage.lower("db", 0).await;
    stage.reports("move", DELETED).await;
    stage.turns(&pod, &[(EVICTOR, "Completed")]).await;
}
