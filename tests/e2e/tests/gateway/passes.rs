//! Calls that are not held up.

use controlplane::{AuditEvent, eventually};
use evacuation_e2e::{
    DenyingWebhook, PodSpec,
    scene::{Bystander, PATIENCE, answer, refused_saying},
};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api,
    api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams, Preconditions},
    core::response::Status,
};
use serde_json::json;

use crate::stage::{Stage, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_deleted_although_its_apps_are_silent() {
    let stage = Stage::new("nsdel").await;
    let name = format!("{}-other", stage.namespace());
    let namespaces: Api<Namespace> = Api::all(stage.admin());
    let wanted = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    namespaces.create(&PostParams::default(), &wanted).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(stage.admin(), &name);
    let pod = json!({
        "metadata": {"name": "app", "annotations": {
            "evacuation.dev/responders": "[{\"name\":\"self\"}]", "controlplane.test/gone-after": "100ms",
        }},
        "spec": {"nodeName": stage.node(), "containers": [{"name": "app", "image": "app"}]},
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    namespaces.delete(&name, &DeleteParams::default()).await.unwrap();
    let gone = eventually(PATIENCE, "the namespace is gone", || async {
        match namespaces.get_opt(&name).await.unwrap() {
            None => Ok(()),
            Some(namespace) => Err(format!("{:?}", namespace.status)),
        }
    });
    gone.await.unwrap();
    let asked = stage.control_plane().audit_events().unwrap();
    let asked = asked.iter().filter(|e| e.resource() == "evacuations" && e.verb() == "create");
    assert_eq!(asked.filter(|event| event.namespace() == name).count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_precondition_that_does_not_hold_is_a_conflict_at_once_and_asks_nobody() {
    let stage = Stage::new("precondition").await;
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let pods = stage.pods.api();
    let note = Patch::Merge(json!({"metadata": {"annotations": {"acme.io/note": "new"}}}));
    let newer = pods.patch("app", &PatchParams::default(), &note).await.unwrap();
    assert_ne!(newer.metadata.resource_version, pod.metadata.resource_version);
    let other_uid = Preconditions { uid: Some("another".to_owned()), resource_version: None };
    let earlier = Preconditions { uid: None, resource_version: pod.metadata.resource_version.clone() };
    for wanted in [other_uid, earlier] {
        let options = DeleteParams::default().preconditions(wanted);
        // kube names this field of an Eviction `delete_options`, which the API ignores.
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "app"}, "deleteOptions": options});
        let evict =
            http::Request::post(format!("/api/v1/namespaces/{}/pods/app/eviction", stage.namespace()))
                .header("Content-Type", "application/json")
                .body(serde_json::to_vec(&eviction).unwrap())
                .unwrap();
        let told = refused_saying(stage.admin().request::<Status>(evict).await, 409, "in the precondition");
        assert_eq!(told.reason, "Conflict");
        refused_saying(pods.delete("app", &options).await, 409, "in the precondition");
    }
    assert_eq!(stage.all_evacuations().await.len(), 0, "the app was not asked");
    assert!(stage.stays(&pod).await);
    refused_saying(pods.evict("app", &EvictParams::default()).await, 429, "responder self was asked");
}

/// Only holders of `override` force a deletion.
///
/// # Attack
///
/// - Attacker: a user who may delete pods
/// - Act: deletes a pod with `--grace-period=0 --force`
/// - Promise: 5
#[tokio::test(flavor = "multi_thread")]
async fn a_forced_deletion_passes_for_holders_of_override_and_asks_for_others() {
    let stage = Stage::new("forced").await;
    let bystander = Bystander::new(&stage).await;
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let user = stage.user("forcing", &["edit"]).await;
    let right = json!({"resource": "pods", "verb": "delete"});
    stage.decided(&user.name, &right, true).await;
    let pods: Api<Pod> = Api::namespaced(user.client.clone(), stage.namespace());
    let force = DeleteParams::default().grace_period(0);
    let refused = refused_saying(pods.delete("app", &force).await, 429, "responder self was asked");
    let again = refused.details.map(|details| details.retry_after_seconds);
    assert_eq!(again, Some(0), "a retry would cut the grace period of a pod that terminates by then");
    bystander.drains(&stage).await;
    let evacuation = stage.evacuation_of("app").await;
    assert_eq!(evacuation.spec.requesters[0].grace_period_seconds, None);
    assert!(stage.stays(&pod).await);

    let rule = json!({"apiGroups": ["evacuation.dev"], "resources": ["evacuations"], "verbs": ["override"]});
    stage.grant(&user.name, rule).await;
    // The gateway keeps a verdict for 10 s.
    let gone = eventually(PATIENCE, "the forced deletion passes", || async {
        pods.delete("app", &force).await.map(drop).map_err(|error| error.to_string())
    });
    gone.await.unwrap();
    stage.pods.gone(&pod).await.unwrap();
    let said = stage.event("Pod", "app", "DeletionForced").await;
    assert!(said.contains(&user.name), "{said}");
}

/// Its app was asked before, and the way out of the guide needs no right to override.
#[tokio::test(flavor = "multi_thread")]
async fn a_forced_deletion_of_a_pod_that_terminates_already_passes_for_everyone() {
    let stage = Stage::new("leaving").await;
    let spec = PodSpec::watching().annotation("controlplane.test/gone-after", "1h");
    let pod = stage.app_pod("app", spec).await;
    let evacuation = stage.ask_and_reach(&pod, json!({})).await;
    answer(&stage.client_of(&pod).await, &evacuation, json!({"answer": "Accept"})).await.unwrap();
    stage.pod_until(&pod, "it terminates", |pod| pod.metadata.deletion_timestamp.is_some()).await;

    let user = stage.user("plain", &["edit"]).await;
    stage.decided(&user.name, &json!({"resource": "pods", "verb": "delete"}), true).await;
    let as_user = format!("--as={}", user.name);
    let force = ["delete", "pod", "app", "--force", "--grace-period=0", &as_user];
    let forced = run(stage.kubectl(&force)).await;
    assert!(forced.success(), "{forced:?}");
    stage.pods.gone(&pod).await.unwrap();
    let tries: Vec<_> = stage.deletions("app").iter().map(AuditEvent::code).collect();
    assert_eq!(tries, [200], "the first one passes");
    stage.ends(&evacuation, "Evacuated Evicted").await;
    assert_eq!(stage.all_evacuations().await.len(), 1, "nobody is asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_of_pods_is_deleted_pod_by_pod() {
    let stage = Stage::new("collection").await;
    let plain = stage.app_pod("plain", PodSpec::default()).await;
    let deleted = run(stage.kubectl(&["delete", "pods", "--all", "--wait=false"])).await;
    assert!(deleted.success(), "{deleted:?}");
    stage.pods.gone(&plain).await.unwrap();
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let all = kube::api::ListParams::default();
    let collected = stage.pods.api().delete_collection(&DeleteParams::default(), &all).await;
    refused_saying(collected, 429, "responder self was asked");
    assert!(stage.stays(&pod).await);
    stage.evacuation_of("app").await;
}

/// A webhook may deny with a code by which an API server also says that it does not answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_a_webhook_denies_holds_the_call_and_is_named_and_counted() {
    let stage = Stage::new("denied").await;
    for (name, code) in [("missing", 404), ("busy", 503)] {
        let pod = stage.app_pod(name, PodSpec::watching()).await;
        let webhook = DenyingWebhook::of_questions(&stage, name, code).await;
        let before = stage.gateway().count("questions_rejected", &[]).await.unwrap();
        let evicted = stage.pods.api().evict(name, &EvictParams::default()).await;
        let held = refused_saying(evicted, 429, "rejects the question to its app");
        assert!(held.message.contains("the freeze lasts until Monday"), "{code}: {held:?}");
        assert!(stage.gateway().count("questions_rejected", &[]).await.unwrap() > before, "{code}");
        let said = stage.event("Pod", name, "QuestionRejected").await;
        assert!(said.contains("the freeze lasts until Monday"), "{code}: {said}");
        assert!(stage.stays(&pod).await, "{code}");
        assert!(stage.all_evacuations().await.is_empty(), "{code}");
        webhook.stop().await;
    }
}
