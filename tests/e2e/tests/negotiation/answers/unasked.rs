//! Pods of which nobody can be asked.

use evacuation_api::{RESPONDERS_ANNOTATION, ResponderState};
use evacuation_e2e::{
    PodSpec, Scene,
    scene::{ASKER, LATE, condition, entry, first, in_millis, post, quick, status, wanting},
};
use kube::ResourceExt;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_without_the_annotation_is_evicted_at_once() {
    let scene = Scene::new("plain").await;
    let pod = scene.pod("app", PodSpec::default()).await;
    let evacuation = scene.ask(&pod, json!({})).await;
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    assert_eq!(status(&ended).responders, Some(Vec::new()));
    let asked = evacuation.metadata.creation_timestamp.unwrap().0;
    let evicted = scene.evicted_at("app").timestamp();
    assert!(evicted - asked.as_second() <= LATE.num_seconds(), "asked {asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_annotation_is_reported_and_counts_as_one_who_is_silent() {
    let scene = Scene::new("unreadable").await;
    let mut spec = PodSpec::watching();
    spec.responders = Some("[{\"name\": \"self\", \"timeout\": 5}".to_owned());
    scene.pod("app", spec).await;
    let wanted = wanting("app", &[entry(ASKER, json!({"deadline": in_millis(15_000)}))]);
    let posted = post(&scene.admin(), scene.namespace(), "", &json!(wanted)).await;
    assert!(posted.warnings.iter().any(|warning| warning.contains("cannot be read")), "{posted:?}");
    let evacuation = posted.created();
    let blocked = scene.until_condition(&evacuation, "Blocked", "UnreadableResponders").await;
    assert_eq!((first(&blocked).name.as_str(), first(&blocked).state), ("self", ResponderState::Active));
    assert_eq!(first(&blocked).timeout_seconds, 60);
    for (kind, name) in [("Evacuation", evacuation.name_any()), ("Pod", "app".to_owned())] {
        let said = scene.event(kind, &name, "UnreadableResponders").await;
        assert!(said.contains("evacuation.dev/responders"), "{said}");
    }
    // Sixty seconds are longer than this test: the deadline comes first.
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    let deadline = wanted.spec.requesters[0].deadline.unwrap().time();
    let evicted = scene.evicted_at("app");
    assert!(deadline <= evicted && evicted < deadline + LATE, "{deadline} {evicted}");
    assert_eq!(condition(&ended, "Blocked").unwrap().status, "False");
}

/// The API holds no more than that in all annotations of an object, keys and values.
const ANNOTATIONS: usize = 256 * 1024;

/// A pod whose annotations have just the size that the API takes: that of its responders is padded.
fn as_long_as_can_be(before: &str, padding: &str, after: &str) -> PodSpec {
    let with = |text: String| quick(PodSpec { responders: Some(text), ..PodSpec::default() });
    let size = |spec: &PodSpec| {
        let others: usize = spec.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        others + RESPONDERS_ANNOTATION.len() + spec.responders.as_ref().map_or(0, String::len)
    };
    let left = ANNOTATIONS - size(&with(format!("{before}{after}")));
    let spec = with(format!("{before}{}{after}", padding.repeat(left)));
    assert_eq!(size(&spec), ANNOTATIONS);
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_of_256_kib_is_read_and_a_longer_one_is_no_pods() {
    let scene = Scene::new("long").await;
    let spec = as_long_as_can_be(r#"[{"name": "self", "#, " ", r#""timeoutSeconds": 7}]"#);
    let mut longer = spec.clone();
    longer.responders.as_mut().unwrap().push(' ');
    let refused = scene.pods.create("longer", &longer).await.unwrap_err();
    assert!(format!("{refused:?}").contains("annotations: Too long"), "{refused:?}");
    let pod = scene.pod("app", spec).await;
    let evacuation = scene.ask_and_reach(&pod, json!({})).await;
    assert_eq!(first(&evacuation).timeout_seconds, 7);
    scene.ends(&evacuation, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_annotation_of_256_kib_is_reported_in_few_words() {
    let scene = Scene::new("long-unreadable").await;
    let spec = as_long_as_can_be(r#"[{"name": ""#, "x", r#""}]"#);
    scene.pod("app", spec).await;
    let wanted = wanting("app", &[entry(ASKER, json!({"deadline": in_millis(15_000)}))]);
    let posted = post(&scene.admin(), scene.namespace(), "", &json!(wanted)).await;
    let warned: Vec<_> = posted.warnings.iter().filter(|w| w.contains("cannot be read")).collect();
    assert!(!warned.is_empty() && warned[0].len() < 1024, "{warned:?}");
    let evacuation = posted.created();
    let blocked = scene.until_condition(&evacuation, "Blocked", "UnreadableResponders").await;
    assert_eq!(first(&blocked).name, "self");
    let message = &condition(&blocked, "Blocked").unwrap().message;
    assert!(message.len() <= 1024, "{} bytes", message.len());
    let said = scene.event("Pod", "app", "UnreadableResponders").await;
    assert!(said.contains("evacuation.dev/responders"), "{said}");
    scene.ends(&evacuation, "Evacuated Evicted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn self_is_skipped_when_no_container_runs() {
    let scene = Scene::new("pending").await;
    let pod = scene
        .raw_pod(&json!({
            "metadata": {"name": "app", "annotations": {
                "evacuation.dev/responders": "[{\"name\":\"self\",\"timeoutSeconds\":600}]",
                "controlplane.test/running-after": "600s",
                "controlplane.test/gone-after": "100ms",
            }},
            "spec": {"containers": [{"name": "app", "image": "app"}]},
        }))
        .await;
    let evacuation = scene.ask(&pod, json!({})).await;
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    let responder = first(&ended);
    assert_eq!((responder.state, responder.active_time), (ResponderState::Interrupted, None));
    assert!(responder.message.as_ref().unwrap().contains("no container"), "{responder:?}");
    scene.event("Pod", "app", "Skipped").await;
}
