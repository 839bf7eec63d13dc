//! Answers that were given hold through outages of the API server and of the controller.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use controlplane::eventually;
use evacuation_client::{Answer, Question};
use evacuation_e2e::{
    PlatformOptions, PodSpec, Pool, Scene,
    scene::{Bystander, PATIENCE, Running, quick},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Error,
    api::{EvictParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::stage::{Stage, options};

/// Bound of the answers, in seconds: longer than the 30 s after which nobody is said to act.
const HOLD: i64 = 45;

/// Platforms that a test disturbs.
static POOL: Pool = Pool::new(2, || PlatformOptions {
    gateway_args: vec![format!("--hold-answers-seconds={HOLD}")],
    ..options()
});

async fn stage(prefix: &str) -> Stage {
    Stage::of(Scene::from_pool(prefix, &POOL)).await
}

/// Returns a pod whose app asks for ten minutes, once that is recorded.
async fn delayed(stage: &Stage, name: &str) -> (Pod, Running) {
    let pod = stage.app_pod(name, PodSpec::watching()).await;
    let app = stage.app(&pod, |_| async { Answer::delay(Duration::from_mins(10)) }).await;
    until(stage, name, "asked for time").await;
    (pod, app)
}

/// Tries to evict the pod. Returns the words of the denial, or `None` when the call passed.
async fn denied(stage: &Stage, pod: &str) -> Option<String> {
    match stage.pods.api().evict(pod, &EvictParams::default()).await {
        Ok(_) => None,
        Err(Error::Api(status)) => Some(status.message.clone()),
        Err(error) => Some(error.to_string()),
    }
}

/// Tries to evict the pod until the denial has these words. No try may pass before.
async fn until(stage: &Stage, pod: &str, words: &str) {
    let told = eventually(2 * PATIENCE, words, || async {
        let message =
            denied(stage, pod).await.unwrap_or_else(|| panic!("{pod} was evicted before {words:?}"));
        if message.contains(words) { Ok(()) } else { Err(message) }
    });
    told.await.unwrap();
}

/// Tries to evict the pod until that passes.
async fn until_evicted(stage: &Stage, pod: &Pod, name: &str) {
    let passed = eventually(2 * PATIENCE, "the call passes", || async {
        denied(stage, name).await.map_or(Ok(()), Err)
    });
    passed.await.unwrap();
    stage.pods.gone(pod).await.unwrap();
}

/// An app that accepts a rehearsal has not accepted to move.
#[tokio::test(flavor = "multi_thread")]
async fn the_answer_to_a_rehearsal_is_none_to_a_call() {
    let stage = stage("rehearsed").await;
    let pod = stage.app_pod("db", PodSpec::watching()).await;
    let handler = |question: Question| async move {
        if question.is_rehearsal() { Answer::accept() } else { Answer::delay(Duration::from_mins(10)) }
    };
    let _app = stage.app(&pod, handler).await;
    let requester = stage.requester("example.com/person");
    let rehearsal = requester.rehearse(stage.namespace(), "db", Duration::from_mins(5)).await.unwrap();
    stage.ends(rehearsal.name(), "Failed Rehearsed").await;
    until(&stage, "db", "asked for time").await;
    assert!(stage.stays(&pod).await);
}

/// A pause of seconds is no outage, however many there are.
///
/// # Attack
///
/// - Attacker: an API server that hangs for seconds, as under a flood of requests
/// - Act: lets the evictions of a pod pass whose app was granted a delay
/// - Promise: 11
#[tokio::test(flavor = "multi_thread")]
async fn pauses_of_the_api_server_end_no_delay_and_another_drain_goes_on() {
    let stage = stage("pauses").await;
    let beside = Bystander::new(&stage).await;
    let (_, _app) = delayed(&stage, "delayed").await;
    let pauses = async {
        // Each pause begins at another moment of the gateway's interval between probes.
        for _ in 0..5 {
            stage.platform().apiserver().pause().unwrap();
            let end = tokio::time::Instant::now() + Duration::from_millis(2600);
            while tokio::time::Instant::now() < end {
                assert!(denied(&stage, "delayed").await.is_some(), "evicted in a pause");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            stage.platform().apiserver().resume().unwrap();
            let back = eventually(PATIENCE, "the API is back", || async {
                stage.evacuations().list(&ListParams::default()).await.map(drop)
            });
            back.await.unwrap();
        }
    };
    tokio::join!(pauses, beside.drains(&stage));
    until(&stage, "delayed", "asked for time").await;
    let evictions = stage.evictions("delayed");
    assert!(!evictions.is_empty() && evictions.iter().all(|event| event.code() != 201), "{evictions:?}");
}

/// # Attack
///
/// - Attacker: a user who may delete pods and provokes an outage of the evacuation API
/// - Act: evicts a pod whose app was granted a delay
/// - Promise: 11
#[tokio::test(flavor = "multi_thread")]
async fn without_the_api_server_an_answer_holds_to_its_bound_and_an_unasked_app_passes() {
    let stage = stage("noserver").await;
    let (pod, _app) = delayed(&stage, "delayed").await;
    let silent = stage.app_pod("silent", PodSpec::watching()).await;
    let unasked = stage.app_pod("unasked", PodSpec::watching()).await;
    until(&stage, "silent", "has not answered").await;
    stage.platform().apiserver().kill().unwrap();
    let killed = Utc::now();
    until_evicted(&stage, &unasked, "unasked").await;
    let said = stage.event("Pod", "unasked", "PassedUnasked").await;
    assert!(said.contains("unasked: the evacuation API did not answer"), "{said}");
    until(&stage, "delayed", "the evacuation API does not answer, and this answer holds until").await;
    until_evicted(&stage, &silent, "silent").await;
    let said = stage.event("Pod", "silent", "PassedUnanswered").await;
    assert!(said.contains("without an answer of its app: the evacuation API does not answer"), "{said}");
    assert!(stage.gateway().count("calls", &["verdict=\"held\""]).await.unwrap() > 0.0);
    until_evicted(&stage, &pod, "delayed").await;
    let said = stage.event("Pod", "delayed", "PassedHoldEnded").await;
    assert!(said.contains("the evacuation API does not answer"), "{said}");
    // The outage began with the last proof, a few seconds before the kill at most.
    let held = stage.evicted_at("delayed") - killed;
    assert!(held > TimeDelta::seconds(HOLD - 8), "{held}");
    let passed = stage.gateway().count("passed_unasked", &["reason=\"hold_ended\""]).await.unwrap();
    assert!(passed > 0.0);
}

/// # Attack
///
/// - Attacker: a user who may delete pods while no controller leads
/// - Act: evicts a pod whose app was granted a delay; or an outage that makes callers wait without an end
/// - Promise: 11
#[tokio::test(flavor = "multi_thread")]
async fn without_a_controller_a_question_passes_after_its_time_and_an_answer_holds_to_its_bound() {
    let stage = stage("noleader").await;
    let (pod, _app) = delayed(&stage, "delayed").await;
    let silent = stage.app_pod("silent", PodSpec::watching()).await;
    let node = format!("tainted-{}", stage.namespace());
    stage.control_plane().add_node(&node, &[]).await.unwrap();
    let tainted = stage.pods.create("tainted", &quick(PodSpec::watching()).on(&node)).await.unwrap();
    until(&stage, "silent", "has not answered").await;
    let plain = stage.app_pod("plain", PodSpec::default()).await;
    stage.kill_controller();
    let killed = Utc::now();
    let others = async {
        // A pod that concerns nobody goes as without us.
        stage.pods.api().evict("plain", &EvictParams::default()).await.unwrap();
        stage.pods.gone(&plain).await.unwrap();
        until_evicted(&stage, &silent, "silent").await;
        let said = stage.event("Pod", "silent", "PassedUnanswered").await;
        assert!(said.contains("without an answer of its app: no controller leads"), "{said}");
        // The controller of taints gives up after a few tries, and nobody would act at the deadline.
        let taint = json!({"key": "test.evacuation.dev/out", "value": "x", "effect": "NoExecute"});
        let patch = Patch::Merge(json!({"spec": {"taints": [taint]}}));
        Api::<Node>::all(stage.admin()).patch(&node, &PatchParams::default(), &patch).await.unwrap();
        stage.pods.gone(&tainted).await.unwrap();
        let said = stage.event("Pod", "tainted", "PassedUnasked").await;
        assert!(said.contains("unasked: no controller leads"), "{said}");
    };
    tokio::join!(others, until_evicted(&stage, &pod, "delayed"));
    let said = stage.event("Pod", "delayed", "PassedHoldEnded").await;
    assert!(said.contains("no controller leads"), "{said}");
    // The lease was renewed a few seconds before the kill at most.
    let held = stage.evicted_at("delayed") - killed;
    assert!(held > TimeDelta::seconds(HOLD - 12), "{held}");
}
