//! Plain kubectl: its drain and its delete know nothing of evacuation.

use controlplane::AuditEvent;
use evacuation_api::{Answer, DeadlineAction, Evacuation};
use evacuation_e2e::{
    PodSpec,
    scene::{answer, refused, until_time},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::EvictParams};
use serde_json::json;

use crate::stage::{Stage, assert_has, run, start};

/// The entry of the caller.
fn entry(evacuation: &Evacuation) -> (&str, &str) {
    let [entry] = &*evacuation.spec.requesters else { panic!("{:?}", evacuation.spec.requesters) };
    assert_eq!(entry.at_deadline, Some(DeadlineAction::GiveUp));
    (&entry.owner, &entry.name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_waits_for_an_app_that_delays_and_the_pod_goes_when_it_accepts() {
    let stage = Stage::new("drain").await;
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let plain = stage.app_pod("plain", PodSpec::default()).await;
    let drain = start(stage.drain(&["--timeout=90s"]));
    let evacuation = stage.evacuation_of("app").await;
    assert_eq!(entry(&evacuation), ("admin", "gateway.evacuation.dev/eviction"));
    stage.pods.gone(&plain).await.unwrap();
    stage.reached(&evacuation, 0).await;
    let app = stage.client_of(&pod).await;
    let delayed = answer(&app, &evacuation, json!({"answer": "Delay", "delaySeconds": 60})).await.unwrap();
    assert!(delayed.granted_seconds.unwrap() >= 59, "an entry that gives up cuts no delay: {delayed:?}");
    until_time(chrono::Utc::now() + chrono::TimeDelta::seconds(7)).await;
    assert!(stage.stays(&pod).await);
    assert!(!drain.is_finished());
    answer(&app, &evacuation, json!({"answer": "Accept"})).await.unwrap();
    stage.ends(&evacuation, "Evacuated Evicted").await;
    let drained = drain.await.unwrap();
    assert!(drained.success(), "{drained:?}");
    assert_has(
        &drained.stderr,
        &["error when evicting pods/\"app\"", "responder self was asked", "kubectl evacuate why app"],
    );
    assert_eq!(stage.all_evacuations().await.len(), 1, "the pod without responders was not evacuated");
    let calls = stage.evictions("app");
    let codes: Vec<_> =
        calls.iter().filter(|call| call.user() == "admin").map(controlplane::AuditEvent::code).collect();
    assert!(codes.first() == Some(&429), "{codes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_told_in_words_and_the_pod_stays() {
    let stage = Stage::new("refusal").await;
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let drain = start(stage.drain(&["--timeout=12s"]));
    let evacuation = stage.evacuation_of("app").await;
    stage.reached(&evacuation, 0).await;
    let refuse = json!({"answer": "Refuse", "reason": "Busy", "message": "a backup runs"});
    answer(&stage.client_of(&pod).await, &evacuation, refuse).await.unwrap();
    stage.answered(&evacuation, Answer::Refuse).await;
    let drained = drain.await.unwrap();
    assert!(!drained.success());
    assert_has(&drained.stderr, &["responder self refused: Busy: a backup runs"]);
    assert!(stage.stays(&pod).await);
    assert!(stage.evicted().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_waits_until_the_app_accepts() {
    let stage = Stage::new("delete").await;
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let delete = start(stage.kubectl(&["delete", "pod", "app"]));
    let evacuation = stage.evacuation_of("app").await;
    assert_eq!(entry(&evacuation), ("admin", "gateway.evacuation.dev/deletion"));
    stage.reached(&evacuation, 0).await;
    assert!(stage.stays(&pod).await);
    answer(&stage.client_of(&pod).await, &evacuation, json!({"answer": "Accept"})).await.unwrap();
    let deleted = delete.await.unwrap();
    assert!(deleted.success(), "{deleted:?}");
    stage.ends(&evacuation, "Evacuated GoneByOther").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_the_app_refuses_fails_at_once_with_its_words() {
    let stage = Stage::new("deleteno").await;
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let delete = start(stage.kubectl(&["delete", "pod", "app"]));
    let evacuation = stage.evacuation_of("app").await;
    stage.reached(&evacuation, 0).await;
    let refuse = json!({"answer": "Refuse", "message": "a backup runs"});
    answer(&stage.client_of(&pod).await, &evacuation, refuse).await.unwrap();
    let deleted = delete.await.unwrap();
    assert!(!deleted.success());
    assert_has(
        &deleted.stderr,
        &["TooManyRequests", "responder self refused: a backup runs", "asked again from"],
    );
    stage.ends(&evacuation, "Failed Refused").await;
    // A second try is answered from the record, and the app is not asked again.
    let again = run(stage.kubectl(&["delete", "pod", "app"])).await;
    assert_has(&again.stderr, &["a backup runs"]);
    assert_eq!(stage.all_evacuations().await.len(), 1);
    assert!(stage.stays(&pod).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_without_responders_goes_at_once_unless_its_namespace_opts_in() {
    let stage = Stage::new("plain").await;
    let pod = stage.app_pod("plain", PodSpec::default()).await;
    let deleted = run(stage.kubectl(&["delete", "pod", "plain", "--wait=false"])).await;
    assert!(deleted.success(), "{deleted:?}");
    stage.pods.gone(&pod).await.unwrap();
    let tries: Vec<_> = stage.deletions("plain").iter().map(AuditEvent::code).collect();
    assert_eq!(tries, [200], "the first one passes");
    assert!(stage.all_evacuations().await.is_empty());

    stage.label_namespace(&[("gateway.evacuation.dev/ask", "all")]).await;
    let pod = stage.app_pod("other", PodSpec::default()).await;
    let drained = run(stage.drain(&["--timeout=60s"])).await;
    assert!(drained.success(), "{drained:?}");
    stage.pods.gone(&pod).await.unwrap();
    let evacuation = stage.evacuation_of("other").await;
    stage.ends(&evacuation, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_is_judged_and_creates_nothing() {
    let stage = Stage::new("dryrun").await;
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let plain = stage.app_pod("plain", PodSpec::default()).await;
    let drained = run(stage.drain(&["--dry-run=server", "--timeout=7s"])).await;
    assert_has(&drained.stderr, &["its responders would be asked first (dry run)"]);
    let deleted = run(stage.kubectl(&["delete", "pod", "plain", "--dry-run=server"])).await;
    assert!(deleted.success(), "{deleted:?}");
    let deleted = run(stage.kubectl(&["delete", "pod", "app", "--dry-run=server"])).await;
    assert!(!deleted.success());
    assert_has(&deleted.stderr, &["its responders would be asked first (dry run)"]);
    assert_eq!(stage.deletions("app").len(), 1, "kubectl does not try again");
    assert!(stage.all_evacuations().await.is_empty());
    assert!(stage.stays(&pod).await && stage.stays(&plain).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_entry_of_a_caller_that_is_killed_expires_and_the_pod_stays() {
    let stage = Stage::new("killed").await;
    let pod = stage.app_pod("app", PodSpec::watching()).await;
    let user = stage.user("hasty", &["edit"]).await;
    let right = json!({"resource": "pods", "subresource": "eviction", "verb": "create"});
    stage.decided(&user.name, &right, true).await;
    let pods: Api<Pod> = Api::namespaced(user.client.clone(), stage.namespace());
    refused(pods.evict("app", &EvictParams::default()).await);
    let evacuation = stage.evacuation_of("app").await;
    let written = evacuation.spec.requesters[0].clone();
    assert_eq!(
        (written.owner.as_str(), written.name.as_str()),
        (user.name.as_str(), "gateway.evacuation.dev/hasty")
    );
    stage.reached(&evacuation, 0).await;
    // A retry at once writes nothing; one after a third of the time moves the deadline.
    refused(pods.evict("app", &EvictParams::default()).await);
    assert_eq!(stage.get(&evacuation).await.spec.requesters[0].deadline, written.deadline);
    until_time(written.deadline.unwrap().time() - chrono::TimeDelta::seconds(18)).await;
    refused(pods.evict("app", &EvictParams::default()).await);
    let renewed = stage
        .until(&evacuation, "the entry is renewed", |e| e.spec.requesters[0].deadline > written.deadline);
    let renewed = renewed.await.spec.requesters[0].deadline.unwrap().time();
    let ended = stage.ends(&evacuation, "Failed DeadlineGaveUp").await;
    assert!(ended.status.as_ref().unwrap().finish_time.unwrap().0 >= renewed);
    assert!(stage.stays(&pod).await);
    // The next call asks anew.
    refused(pods.evict("app", &EvictParams::default()).await);
    let all = stage.all_evacuations().await;
    assert_eq!(all.len(), 2);
}
