//! Rehearsals: `kubectl evacuate test` asks an app, shows its answer, and evicts nothing.

use std::time::Duration;

use controlplane::{Output, output_of};
use evacuation_api::{Evacuation, FailedReason};
use evacuation_client::{Answer, Question, error_chain};
use evacuation_e2e::{
    App, PodSpec, Scene,
    scene::{condition, quick, refused_for},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::side_car::Script;

/// Rehearses the evacuation of a pod, which stays. Returns what the command printed.
pub(crate) async fn rehearse(scene: &Scene, pod: &Pod) -> Output {
    let mut command = scene.platform().kubectl_command();
    command.args(["evacuate", "test", &pod.name_any(), "-n", scene.namespace(), "--timeout=2m"]);
    let output = output_of("kubectl", command).await.unwrap();
    assert!(scene.stays(pod).await, "{output:?}");
    output
}

/// Rehearses like [`rehearse`]. The command must succeed and print these texts, in this order.
pub(crate) async fn passes(scene: &Scene, pod: &Pod, texts: &[&str]) {
    let output = rehearse(scene, pod).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    let mut rest = output.stdout.as_str();
    for text in texts {
        let place = rest.find(text).unwrap_or_else(|| panic!("{text:?} is not in {rest:?} of {output:?}"));
        rest = &rest[place..];
    }
}

/// The rehearsal of the pod.
async fn rehearsal_of(scene: &Scene, pod: &Pod) -> Evacuation {
    let of_pod = ListParams::default().fields(&format!("spec.target.pod.name={}", pod.name_any()));
    let mut all = scene.evacuations().list(&of_pod).await.unwrap().items;
    all.retain(|evacuation| evacuation.spec.rehearsal);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rust_app_learns_that_it_is_a_rehearsal_and_goes_on_working() {
    let scene = Scene::new("rehearsed").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    let app = App::watching(scene.platform(), &pod, "finish_work", &["--work-seconds", "300"]).await.unwrap();
    let shown = [
        "rehearsal of pod",
        "self: Delay of 300 s after",
        "the work would be finished first",
        "self: knows that it is over",
        "passed: a real request would wait for self",
    ];
    passes(&scene, &pod, &shown).await;
    app.says("a rehearsal by kubectl.evacuation.dev/admin: the work goes on").await.unwrap();
    let ended = rehearsal_of(&scene, &pod).await;
    assert_eq!(condition(&ended, "Failed").unwrap().reason, FailedReason::Rehearsed.as_str());
    let status = ended.status.as_ref().unwrap();
    assert!(status.eviction.is_none(), "{status:?}");
    assert!(scene.evictions("app").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_of_a_side_car_learns_that_it_is_a_rehearsal() {
    let scene = Scene::new("rehearsed-agent").await;
    let script = Script::new();
    let work = script.file("work", "echo $EVACUATION_EVENT $EVACUATION_REHEARSAL >> $log; echo no jobs");
    let undo = script.file("undo", "echo $EVACUATION_EVENT $EVACUATION_REHEARSAL >> $log");
    let pod = scene.pod("app", PodSpec::watching()).await;
    let arguments = ["--on-cancel", "sh", &undo, ";", "--exec", "sh", &work];
    let _agent = App::agent(scene.platform(), &pod, &arguments).await.unwrap();
    let shown = ["self: Accept after", "no jobs", "passed: a real request would evict the pod now"];
    passes(&scene, &pod, &shown).await;
    script.logged("Ask true\nCancel true\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rehearsal_fails_where_nobody_answers_validly_and_says_why() {
    let scene = Scene::new("rehearsed-wrong").await;
    let plain = scene.pod("plain", PodSpec::default()).await;
    let output = rehearse(&scene, &plain).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("no responder is registered"), "{output:?}");

    // Nothing listens there.
    let deaf = json!([{"name": "self", "http": {"port": 9}, "timeoutSeconds": 2}]);
    let deaf = scene.pod("deaf", PodSpec::registered(&deaf)).await;
    let silent = scene.pod("silent", quick(PodSpec::watching())).await;
    for (pod, why) in
        [(&deaf, "self: no valid answer"), (&silent, "self: no valid answer: it was silent for")]
    {
        let output = rehearse(&scene, pod).await;
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stdout.contains(why), "{why}: {output:?}");
        assert!(output.stderr.contains("no valid answer of self"), "{output:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_request_is_neither_joined_nor_held_back_by_a_rehearsal() {
    let scene = Scene::new("rehearsed-beside").await;
    let pod = scene.pod("app", PodSpec::watching()).await;
    // It never answers a rehearsal.
    let handler = |question: Question| async move {
        if question.is_rehearsal() {
            question.ended().await;
        }
        Answer::accept()
    };
    let _app = scene.app(&pod, handler).await;
    let requester = scene.requester("example.com/person");
    let rehearsal = requester.rehearse(scene.namespace(), "app", Duration::from_mins(5)).await.unwrap();
    scene.reached(rehearsal.name(), 0).await;

    let second = requester.rehearse(scene.namespace(), "app", Duration::from_mins(5)).await.unwrap_err();
    let second = error_chain(&second);
    assert!(second.contains(rehearsal.name()), "{second}");

    // Nobody makes a request of it.
    let other = json!({"name": "example.com/other", "owner": "admin", "deadline": "2100-01-01T00:00:00Z"});
    let known = serde_json::to_value(scene.get(rehearsal.name()).await).unwrap();
    let mut real = known.clone();
    real["spec"]["rehearsal"] = json!(false);
    let mut joined = known;
    joined["spec"]["requesters"].as_array_mut().unwrap().push(other);
    for (changed, cause) in [(real, "FieldValueInvalid"), (joined, "FieldValueTooMany")] {
        let changed: Evacuation = serde_json::from_value(changed).unwrap();
        let written = scene.evacuations().replace(rehearsal.name(), &PostParams::default(), &changed).await;
        refused_for(written, 422, cause);
    }
    let late = json!({"status": {"eviction": {"inFlight": true, "attempts": 1, "accepted": false}}});
    let patch = Patch::Merge(&late);
    let status = scene.evacuations().patch_status(rehearsal.name(), &PatchParams::default(), &patch).await;
    assert!(status.is_err(), "no attempt is recorded in a rehearsal: {status:?}");

    let request = scene.evacuate(&pod).await;
    assert!(!request.joined());
    scene.ends(&request, "Evacuated Evicted").await;
    let ended = scene.until_condition(rehearsal.name(), "Evacuated", "GoneByOther").await;
    // The pod went by a request, and not despite an answer.
    assert_eq!(evacuation_protocol::state_word(&ended), "Evacuated");
}
