//! Answers that a framework, a proxy or a cut changed on their way.

use std::sync::atomic::{AtomicUsize, Ordering};

use evacuation_api::{Answer, Evacuation};
use evacuation_e2e::{Endpoint, PodSpec, Reply, Scene, answering, ok, scene::first};
use futures::future::join_all;
use serde_json::json;

/// The reply that a form makes of the JSON of an answer.
type Form = fn(&str) -> Vec<u8>;

/// Forms in which a refusal comes, each with a name that a pod can have.
const FORMS: [(&str, Form); 9] = [
    ("mark", |text| ok("application/json; charset=utf-8", format!("\u{feff}{text}").as_bytes())),
    ("two-bytes", |text| {
        let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        ok("application/json", &units)
    }),
    ("latin", |text| {
        ok(
            "application/json",
            &text.replace("REASON", "für \u{1}").chars().map(|c| c as u8).collect::<Vec<_>>(),
        )
    }),
    ("cut-emoji", |text| ok("application/json", text.replace("REASON", "copying \\ud83d").as_bytes())),
    ("page", |text| ok("text/html", text.as_bytes())),
    ("more", |text| ok("application/json", format!("{text}\0\nOK").as_bytes())),
    ("twice", |text| {
        ok("application/json", text.replace(r#""answer":"#, r#""answer":"Accept","answer":"#).as_bytes())
    }),
    ("time", |text| {
        ok(
            "application/json",
            text.replace(r#""answer":"#, r#""retryAfterSeconds":"5m","answer":"#).as_bytes(),
        )
    }),
    ("pascal", |text| {
        let text = text.replace("evacuationUid", "EvacuationUID").replace("podUid", "pod_uid");
        ok("text/plain", text.replace("\"answer\"", "\"Answer\"").as_bytes())
    }),
];

#[tokio::test(flavor = "multi_thread")]
async fn rule_11_a_refusal_counts_in_whatever_form_it_comes() {
    let scene = Scene::new("forms").await;
    let refused = FORMS.map(|(name, form)| {
        let scene = &scene;
        async move {
            let pod = scene.pod(name, PodSpec::pushed(scene.port)).await;
            let endpoint = Endpoint::of(&pod, scene.port, move |question| {
                let answer = answering(question, json!({"answer": "Refuse", "message": "REASON"}));
                Reply::Bytes(form(&answer.to_string()))
            });
            let _endpoint = endpoint.await.unwrap();
            let evacuation = scene.ask(&pod, json!({"onRefusal": "Wait"})).await;
            let has_refused = |e: &Evacuation| first(e).answer == Some(Answer::Refuse);
            scene.until(&evacuation, &format!("the refusal of {name} counts"), has_refused).await;
            assert!(scene.stays(&pod).await, "{name}");
        }
    });
    join_all(refused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_11_a_delay_without_a_readable_length_counts_until_its_app_accepts() {
    const DELAYS: usize = 2;
    let scene = Scene::new("lengths").await;
    let answers = [
        ("missing", json!({"answer": "Delay"})),
        ("unreadable", json!({"answer": "Delay", "delaySeconds": "5m"})),
    ];
    let delayed = answers.map(|(name, delay)| {
        let scene = &scene;
        async move {
            let pod = scene.pod(name, PodSpec::pushed(scene.port)).await;
            let replies = AtomicUsize::new(0);
            let endpoint = Endpoint::of(&pod, scene.port, move |question| {
                let is_done = replies.fetch_add(1, Ordering::Relaxed) >= DELAYS;
                let answer = if is_done { json!({"answer": "Accept"}) } else { delay.clone() };
                Reply::Json(answering(question, answer))
            });
            let endpoint = endpoint.await.unwrap();
            let evacuation = scene.ask(&pod, json!({})).await;
            let is_delayed = |e: &Evacuation| first(e).answer == Some(Answer::Delay);
            let delayed = scene.until(&evacuation, &format!("the delay of {name} counts"), is_delayed).await;
            let said = first(&delayed).message.clone().unwrap_or_default();
            assert!(said.starts_with("response.delaySeconds is "), "{said}");
            let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
            assert_eq!(first(&ended).answer, Some(Answer::Accept), "{name}");
            assert!(endpoint.asked().len() > DELAYS, "it was reminded before each delay ended");
        }
    });
    join_all(delayed).await;
}
