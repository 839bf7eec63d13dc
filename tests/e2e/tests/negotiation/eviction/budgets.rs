//! Evictions within budgets.

use controlplane::AuditEvent;
use evacuation_api::{Evacuation, RESPONDERS_ANNOTATION};
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{LATE, condition, status},
};
use futures::{StreamExt, future::join_all, pin_mut};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};

fn blockers(evacuation: &Evacuation) -> Vec<String> {
    let eviction = status(evacuation).eviction.unwrap_or_default();
    let blockers = eviction.blocked_by.into_iter();
    blockers.map(|blocker| format!("{} {}", blocker.kind, blocker.name)).collect()
}

/// Three pods of a Deployment with these responders, each of which is replaced when it goes.
pub(super) async fn deployed(scene: &Scene, responders: &Value) -> Vec<Pod> {
    let labels = json!({"app": "web"});
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels, "annotations": {
                "controlplane.test/running-after": "500ms", "controlplane.test/gone-after": "200ms",
                RESPONDERS_ANNOTATION: responders.to_string(),
            }},
            "spec": {"containers": [{"name": "app", "image": "app"}]},
        }},
    });
    let deployment: Deployment = serde_json::from_value(deployment).unwrap();
    let api: Api<Deployment> = Api::namespaced(scene.admin(), scene.namespace());
    api.create(&PostParams::default(), &deployment).await.unwrap();
    let pods = controlplane::eventually(evacuation_e2e::scene::PATIENCE, "three pods", || async {
        let pods = scene.pods.api().list(&ListParams::default()).await.unwrap().items;
        if pods.len() == 3 { Ok(pods) } else { Err(pods.len()) }
    });
    let pods = pods.await.unwrap();
    join_all(pods.iter().map(|pod| async {
        let name = pod.name_any();
        scene.pods.ready(&name).await.unwrap()
    }))
    .await
}

fn is_up(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_budget_of_one_never_two_are_down_and_each_takes_about_one_call() {
    let scene = Scene::new("budget").await;
    let pods = deployed(&scene, &json!([])).await;
    scene.pods.budget("web", ("app", "web"), 1).await.unwrap();
    let api = scene.pods.api();
    let listed = api.list(&ListParams::default()).await.unwrap();
    let version = listed.metadata.resource_version.unwrap();
    let watching = tokio::spawn(async move {
        let events = api.watch(&WatchParams::default(), &version).await.unwrap();
        pin_mut!(events);
        let mut up: std::collections::BTreeSet<_> = listed.items.iter().map(ResourceExt::name_any).collect();
        let mut fewest = up.len();
        while let Some(event) = events.next().await {
            match event.unwrap() {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) if is_up(&pod) => {
                    up.insert(pod.name_any());
                }
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => {
                    up.remove(&pod.name_any());
                }
                _ => {}
            }
            fewest = fewest.min(up.len());
            if pods_gone(&up, &listed.items) {
                break;
            }
        }
        fewest
    });
    let evacuations = join_all(pods.iter().map(|pod| scene.ask(pod, json!({})))).await;
    for evacuation in &evacuations {
        scene.ends(evacuation, "Evacuated Evicted").await;
    }
    assert_eq!(watching.await.unwrap(), 2, "the fewest that were up at once");
    // A call that meets a write of the budget is refused and made again.
    let codes =
        pods.iter().map(|pod| scene.evictions(&pod.name_any()).iter().map(AuditEvent::code).collect());
    let codes: Vec<Vec<u16>> = codes.collect();
    let evicted = |codes: &Vec<u16>| codes.iter().filter(|code| **code == 201).count();
    assert!(codes.iter().all(|codes| evicted(codes) == 1), "{codes:?}");
    assert!(codes.iter().any(|codes| codes.len() == 1), "each pod was tried again: {codes:?}");
}

/// Returns whether none of the first pods is up any more.
fn pods_gone(up: &std::collections::BTreeSet<String>, first: &[Pod]) -> bool {
    first.iter().all(|pod| !up.contains(&pod.name_any()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_allows_nothing_is_named_and_one_that_is_widened_is_noticed_at_once() {
    let scene = Scene::new("widened").await;
    let pod = scene.pod("app", PodSpec::default().label("app", "a")).await;
    scene.floor("tight", ("app", "a"), 1).await;
    let evacuation = scene.ask(&pod, json!({})).await;
    let blocked = scene.until_condition(&evacuation, "Blocked", "BudgetAllowsNone").await;
    assert_eq!(blockers(&blocked), ["PodDisruptionBudget tight"]);
    let said = &condition(&blocked, "Blocked").unwrap().message;
    assert!(said.contains("tight"), "{said}");
    let said = scene.event("Pod", "app", "EvictionBlocked").await;
    assert!(said.contains("budget tight"), "{said}");
    assert!(scene.evictions("app").len() <= 1, "a budget that allows nothing is not asked again and again");

    let widened = chrono::Utc::now();
    scene.lower("tight", 0).await;
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    let evicted = scene.evicted_at("app");
    assert!(evicted < widened + LATE, "widened {widened}, evicted {evicted}");
    assert_eq!(condition(&ended, "Blocked").unwrap().status, "False");
    assert_eq!(blockers(&ended), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_budgets_of_one_pod_are_both_named() {
    let scene = Scene::new("two").await;
    let pod = scene.pod("app", PodSpec::default().label("app", "a").label("tier", "b")).await;
    tokio::join!(scene.floor("one", ("app", "a"), 0), scene.floor("two", ("tier", "b"), 0));
    let evacuation = scene.ask(&pod, json!({})).await;
    let blocked = scene.until_condition(&evacuation, "Blocked", "MultipleBudgets").await;
    assert_eq!(blockers(&blocked), ["PodDisruptionBudget one", "PodDisruptionBudget two"]);
    assert!(scene.stays(&pod).await);

    // The eviction goes on when one of the two is gone.
    let params = DeleteParams::default();
    scene.api::<PodDisruptionBudget>().delete("two", &params).await.unwrap();
    scene.ends(&evacuation, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_no_budget_holds_does_not_wait_for_those_that_one_holds() {
    let scene = Scene::new("beside").await;
    let (held, free) = tokio::join!(
        scene.pod("held", PodSpec::default().label("app", "a")),
        scene.pod("free", PodSpec::default())
    );
    scene.pods.budget("app", ("app", "a"), 0).await.unwrap();
    let held_back = scene.ask(&held, json!({})).await;
    scene.until_condition(&held_back, "Blocked", "BudgetNotComputed").await;
    let evacuation = scene.ask(&free, json!({})).await;
    scene.ends(&evacuation, "Evacuated Evicted").await;
    assert!(scene.stays(&held).await);
}
