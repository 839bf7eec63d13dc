//! Answers that hold a pod back, and silence.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use chrono::TimeDelta;
use evacuation_api::{
    CordonOwner, DrainBlockerReason, DrainConditionType, DrainVerdict, DrainedNodePhase, Evacuation,
};
use evacuation_e2e::{
    Endpoint, PodSpec, Reply, answering,
    scene::{answer, delay_end, end_of},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::nodes::{Stage, entry, is_cordoned, phases};

/// A node, the pod on it, its app and the question to it.
struct Asked {
    stage: Stage,
    pod: Pod,
    app: Client,
    evacuation: Evacuation,
}

impl Asked {
    /// Drains the node of a pod, and waits until its app is asked.
    async fn new(prefix: &str, requester: Value) -> Self {
        let stage = Stage::new(prefix, 1).await;
        let pod = stage.scene.pod("app", PodSpec::watching().on(&stage.nodes[0])).await;
        let app = stage.scene.client_of(&pod).await;
        stage.drain("d", &[0], json!({"requester": requester, "pods": {"unmanaged": "Evict"}})).await;
        let evacuation = stage.scene.evacuation_of("app").await;
        let evacuation = stage.scene.reached(&evacuation, 0).await;
        Self { stage, pod, app, evacuation }
    }

    async fn answers(&self, spec: Value) {
        answer(&self.app, &self.evacuation, spec).await.unwrap();
    }

    async fn refuses(&self) {
        let spec = json!({"answer": "Refuse", "reason": "BackupRunning", "message": "a backup is running"});
        self.answers(spec).await;
    }

    /// The blocker's object.
    fn object(&self) -> String {
        format!("Evacuation/{}", self.evacuation.name_any())
    }
}

const REFUSED: &[&str] = &["responder self refused", "BackupRunning", "a backup is running"];

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_without_a_deadline_is_stuck_until_the_app_accepts() {
    let asked = Asked::new("refused", json!({})).await;
    asked.refuses().await;
    let found = asked.stage.blocked("d", DrainBlockerReason::Refused, true).await;
    found.concerns(&[&asked.pod], &asked.object()).says(REFUSED);
    found.says(&[
        "the responder must change its answer",
        "kubectl evacuate override app -n ",
        "--deadline=10m",
    ]);
    assert_eq!((found.status.pods.refused, found.status.expected_completion), (1, None));
    assert!(asked.stage.scene.stays(&asked.pod).await);
    asked.answers(json!({"answer": "Accept"})).await;
    asked.stage.drained("d").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_overruled_by_override_in_the_spec() {
    let asked = Asked::new("overrule", json!({})).await;
    asked.refuses().await;
    asked.stage.blocked("d", DrainBlockerReason::Refused, true).await;
    asked.stage.change("d", json!({"requester": {"onRefusal": "Override"}})).await;
    asked.stage.drained("d").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_before_a_deadline_is_slow_and_ends_at_the_deadline() {
    let asked = Asked::new("deadline", json!({"deadlineSeconds": 600})).await;
    asked.refuses().await;
    let found = asked.stage.blocked("d", DrainBlockerReason::Refused, false).await;
    found.concerns(&[&asked.pod], &asked.object()).says(REFUSED);
    found.says(&["nothing is needed", "the deadline overrules the refusal at"]);
    let end = found.status.start_time.unwrap().0 + TimeDelta::seconds(600);
    assert_eq!(found.status.expected_completion.map(|time| time.0), Some(end));
    asked.stage.change("d", json!({"requester": {"deadlineSeconds": 1}})).await;
    asked.stage.drained("d").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_names_a_time_is_slow_while_the_app_is_asked_again() {
    let stage = Stage::new("again", 1).await;
    let responders = json!([{"name": "self", "http": {"port": stage.scene.port}, "timeoutSeconds": 600}]);
    let pod = stage.scene.pod("app", PodSpec::registered(&responders).on(&stage.nodes[0])).await;
    let asked = AtomicUsize::new(0);
    // Each reply takes 1 to 2 s, so that the drain is judged while the app is being asked.
    let endpoint = Endpoint::of(&pod, stage.scene.port, move |question| {
        let answer = if asked.fetch_add(1, Ordering::Relaxed) < 3 {
            json!({"answer": "Refuse", "retryAfterSeconds": 3})
        } else {
            json!({"answer": "Accept"})
        };
        Reply::Drip(Duration::from_millis(10), answering(question, answer))
    })
    .await
    .unwrap();
    stage.drain("d", &[0], json!({"pods": {"unmanaged": "Evict"}})).await;
    let found = stage.blocked("d", DrainBlockerReason::Refused, false).await;
    found.says(&["the responder is asked again at 20", "and must change its answer"]);
    stage.drained("d").await;
    stage.announces("d", "Drained").await;
    assert_eq!(endpoint.asked().len(), 4);
    let reasons = stage.announced("d").await;
    assert!(!reasons.iter().any(|reason| reason == "Stuck"), "{reasons:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_is_slow_and_its_end_is_the_expected_end() {
    let asked = Asked::new("delayed", json!({})).await;
    asked.answers(json!({"answer": "Delay", "delaySeconds": 300, "message": "a job runs"})).await;
    let found = asked.stage.blocked("d", DrainBlockerReason::Delayed, false).await;
    let words = ["responder self asked for a delay until", "a job runs", "nothing is needed"];
    found.concerns(&[&asked.pod], &asked.object()).says(&words);
    assert_eq!(found.status.pods.delayed, 1);
    let granted = delay_end(&asked.stage.scene.get(&asked.evacuation).await);
    assert_eq!(found.status.expected_completion.map(|time| time.0), Some(granted));
    // The controller continues when the delay ends.
    asked.answers(json!({"answer": "Delay", "delaySeconds": 1})).await;
    asked.stage.drained("d").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_is_slow_from_half_of_the_timeout_and_ends_with_it() {
    let stage = Stage::new("silent", 1).await;
    let responders = json!([{"name": "self", "timeoutSeconds": 10}]);
    let spec = PodSpec::registered(&responders).on(&stage.nodes[0]);
    let pod = stage.scene.pod("app", spec).await;
    stage.drain("d", &[0], json!({"pods": {"unmanaged": "Evict"}})).await;
    let status = stage.until("d", "the pod is asked", |status| status.pods.asked == 1).await;
    assert_eq!((status.verdict, status.blockers.len()), (Some(DrainVerdict::Draining), 0), "{status:?}");
    let found = stage.blocked("d", DrainBlockerReason::Unanswered, false).await;
    let evacuation = stage.scene.evacuation_of("app").await;
    let object = format!("Evacuation/{}", evacuation.name_any());
    found.concerns(&[&pod], &object).says(&["responder self has not answered", "has time until"]);
    let asked = evacuation_e2e::scene::first(&evacuation).active_time.unwrap().0;
    let end = found.status.expected_completion.unwrap().0;
    assert_eq!(end, asked + TimeDelta::seconds(10));
    stage.drained("d").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_left_alone_fails_the_drain_and_another_drain_overrides_it() {
    let asked = Asked::new("alone", json!({"onRefusal": "GiveUp"})).await;
    asked.refuses().await;
    let stage = &asked.stage;
    let status = stage.until("d", "it fails", |status| status.is_true(DrainConditionType::Failed)).await;
    assert!(status.is_true(DrainConditionType::Finished) && !status.is_true(DrainConditionType::Drained));
    assert_eq!(
        (status.verdict, phases(&status)),
        (Some(DrainVerdict::Failed), vec![DrainedNodePhase::Failed])
    );
    assert_eq!(entry(&status, &stage.nodes[0]).cordoned, CordonOwner::Ours);
    assert_eq!((status.pods.refused, status.pods.gone), (1, 0));
    let blocker = status.blockers[0].clone();
    assert_eq!((blocker.reason.as_str(), blocker.stuck), ("LeftAlone", true));
    assert_eq!(blocker.object, Some(asked.object()));
    for words in ["left alone", "BackupRunning", "a backup is running", "--on-refusal=override"] {
        assert!(blocker.message.contains(words), "{blocker:?}");
        assert!(status.message.as_ref().unwrap().contains(words), "{status:?}");
    }
    let ended = stage.scene.get(&asked.evacuation).await;
    assert_eq!(end_of(&ended).as_deref(), Some("Failed Refused"));
    assert!(stage.scene.stays(&asked.pod).await && is_cordoned(&stage.node(0).await));

    let again = json!({"requester": {"onRefusal": "Override"}, "pods": {"unmanaged": "Evict"}});
    stage.drain("again", &[0], again).await;
    let next = stage.scene.evacuations();
    let open = controlplane::eventually(evacuation_e2e::scene::PATIENCE, "it is asked again", || async {
        let all = next.list(&kube::api::ListParams::default()).await.unwrap().items;
        all.into_iter().find(|evacuation| end_of(evacuation).is_none()).ok_or("it is not")
    });
    let open = stage.scene.reached(&open.await.unwrap(), 0).await;
    answer(&asked.app, &open, json!({"answer": "Refuse"})).await.unwrap();
    stage.drained("again").await;
    stage.delete("again").await;
    assert!(is_cordoned(&stage.node(0).await), "the failed drain holds it until it is deleted");
    stage.delete("d").await;
    assert!(!is_cordoned(&stage.node(0).await));
}
