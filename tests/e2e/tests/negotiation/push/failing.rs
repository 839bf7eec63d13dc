//! Endpoints that fail. Each is tried again, reported in the status, passed over at its timeout, and then the
//! platform goes on.

use evacuation_e2e::{
    Endpoint, PodSpec, Reply, Scene, answering, ok,
    scene::{LATE, first},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use chrono::TimeDelta;
use controlplane::output_of;
use evacuation_api::{Answer, Evacuation, ResponderState, ResponderStatus, ReviewAction, ReviewRequest};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

/// Asks an app whose endpoint behaves so, and checks that it is reported in these words and then passed over.
async fn fails(prefix: &str, reply: impl Fn(&ReviewRequest) -> Reply + Send + Sync + 'static, said: &str) {
    let ended = passes_over(prefix, reply, said, "it gave no valid answer in 3 s: ", "NoValidAnswer").await;
    assert!(ended.asked_time.is_some(), "{ended:?}");
}

/// Does that where the message of the responder begins so, and an Event of that reason tells of its end.
async fn passes_over(
    prefix: &str,
    reply: impl Fn(&ReviewRequest) -> Reply + Send + Sync + 'static,
    said: &str,
    start: &str,
    event: &str,
) -> ResponderStatus {
    let scene = Scene::new(prefix).await;
    let spec = registered(&scene, 3);
    let pod = scene.pod("app", spec).await;
    let endpoint = Endpoint::of(&pod, scene.port, reply).await.unwrap();
    let evacuation = scene.ask(&pod, json!({})).await;
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    let responder = first(&ended);
    assert_eq!((responder.state, responder.answer), (ResponderState::Interrupted, None));
    let message = responder.message.as_deref().unwrap();
    if said.is_empty() {
        assert_eq!(message, "it was silent for 3 s");
    } else {
        assert!(message.starts_with(start) && message.contains(said), "{message}");
        scene.event("Pod", "app", event).await;
    }
    let since = responder.asked_time.or(responder.unreachable_time);
    let lapse = since.unwrap().0 + TimeDelta::seconds(3);
    let evicted = scene.evicted_at("app");
    assert!(lapse <= evicted && evicted < lapse + LATE, "{lapse} {evicted}");
    endpoint.hears(ReviewAction::Ask).await.unwrap();
    if !said.is_empty() {
        let event = scene.event("Evacuation", &evacuation.name_any(), "PushFailed").await;
        assert!(event.contains(said), "{said:?} is not in {event:?}");
        scene.event("Pod", "app", "PushFailed").await;
    }
    responder.clone()
}

fn registered(scene: &Scene, timeout: i64) -> PodSpec {
    PodSpec::registered(&json!([{"name": "self", "http": {"port": scene.port}, "timeoutSeconds": timeout}]))
}

fn accepting(question: &ReviewRequest) -> Value {
    answering(question, json!({"answer": "Accept"}))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_answers_nonsense_is_passed_over() {
    let nonsense = |_: &ReviewRequest| Reply::Bytes(ok("application/json", b"{\"response\": 7}"));
    fails("nonsense", nonsense, "response is 7 and not an object").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_answers_a_word_that_is_no_answer_is_passed_over() {
    let maybe = |question: &ReviewRequest| Reply::Json(answering(question, json!({"answer": "Maybe"})));
    fails("maybe", maybe, "response.answer is \"Maybe\"").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_answers_with_a_page_is_passed_over() {
    let html = |_: &ReviewRequest| Reply::Bytes(ok("text/html", b"<html>sign in</html>"));
    fails("html", html, "content type \"text/html\" and a body that begins with \"<html>sign in").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_answers_ten_megabytes_is_passed_over() {
    let large = |question: &ReviewRequest| {
        let mut body = accepting(question);
        body["padding"] = json!("x".repeat(10_000_000));
        Reply::Json(body)
    };
    fails("large", large, "more than 262144 bytes").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_closes_the_connection_is_passed_over() {
    let start = "it could not be reached for 3 s: ";
    let ended = passes_over("closing", |_| Reply::Close, "did not reply", start, "Unreachable").await;
    assert!(ended.asked_time.is_none() && ended.unreachable_time.is_some(), "{ended:?}");
}

/// A mesh that requires mTLS ends a plain connection without a reply.
#[tokio::test(flavor = "multi_thread")]
async fn an_app_behind_a_mesh_that_requires_mtls_is_named_by_why_and_asked_once_its_port_is_exempt() {
    let scene = Scene::new("mesh").await;
    let pod = scene.pod("app", registered(&scene, 600)).await;
    let exempt = Arc::new(AtomicBool::new(false));
    let mesh = exempt.clone();
    let behind_mesh = move |question: &ReviewRequest| {
        if mesh.load(Ordering::Relaxed) { Reply::Json(accepting(question)) } else { Reply::Close }
    };
    let _endpoint = Endpoint::of(&pod, scene.port, behind_mesh).await.unwrap();
    let evacuation = scene.ask(&pod, json!({})).await;
    scene.until(&evacuation, "it is out of reach", |e| first(e).unreachable_time.is_some()).await;
    let said = scene.event("Pod", "app", "PushFailed").await;
    assert!(said.contains("did not reply"), "{said}");
    let mut why = scene.platform().kubectl_command();
    why.args(["evacuate", "why", "app", "-n", scene.namespace()]);
    let said = output_of("kubectl", why).await.unwrap().stdout;
    assert!(said.contains("it could not be asked: ") && said.contains("did not reply"), "{said}");
    exempt.store(true, Ordering::Relaxed);
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    assert_eq!(first(&ended).answer, Some(Answer::Accept));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_repeats_another_evacuations_uid_is_passed_over() {
    let other = |question: &ReviewRequest| {
        let mut reply = accepting(question);
        reply["response"]["evacuationUid"] = json!("another");
        Reply::Json(reply)
    };
    fails("other-evacuation", other, "replied for evacuation with UID \"another\"").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_repeats_another_pods_uid_is_passed_over() {
    let other = |question: &ReviewRequest| {
        let mut reply = accepting(question);
        reply["response"]["podUid"] = json!("another");
        Reply::Json(reply)
    };
    fails("other-pod", other, "replied for pod with UID \"another\"").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_reply_is_in_the_status_and_in_why_while_the_time_runs() {
    let scene = Scene::new("wrong-reply").await;
    let pod = scene.pod("app", registered(&scene, 600)).await;
    let error = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
    let _endpoint = Endpoint::of(&pod, scene.port, |_| Reply::Bytes(error.to_vec())).await.unwrap();
    let evacuation = scene.ask(&pod, json!({})).await;
    let has_problem = |e: &Evacuation| {
        first(e).message.as_deref().is_some_and(|message| message.contains("its reply does not count"))
    };
    let seen = scene.until(&evacuation, "the status says what is wrong", has_problem).await;
    let message = first(&seen).message.clone().unwrap();
    assert!(message.contains("500") && first(&seen).state == ResponderState::Active, "{message}");
    let said = said_by(&scene, "why").await;
    assert!(said.contains("its reply does not count") && said.contains("500"), "{said}");
}

/// Runs a command of the plugin for the app's pod.
async fn said_by(scene: &Scene, command: &str) -> String {
    let mut kubectl = scene.platform().kubectl_command();
    kubectl.args(["evacuate", command, "app", "-n", scene.namespace()]);
    output_of("kubectl", kubectl).await.unwrap().stdout
}

/// Asks an app whose endpoint answers so and then only fails, until the status says what failed.
async fn breaks_after(scene: &Scene, answer: Value) -> (Endpoint, Evacuation) {
    let pod = scene.pod("app", registered(scene, 600)).await;
    let first_time = std::sync::atomic::AtomicBool::new(true);
    let error = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
    let endpoint = Endpoint::of(&pod, scene.port, move |question| {
        if first_time.swap(false, std::sync::atomic::Ordering::Relaxed) {
            Reply::Json(answering(question, answer.clone()))
        } else {
            Reply::Bytes(error.to_vec())
        }
    })
    .await
    .unwrap();
    let evacuation = scene.ask(&pod, json!({"onRefusal": "Wait"})).await;
    let has_failed = |e: &Evacuation| {
        first(e).failure.as_deref().is_some_and(|failure| failure.contains("its reply does not count"))
    };
    let seen = scene.until(&evacuation, "the status says what fails", has_failed).await;
    let responder = first(&seen);
    let failure = responder.failure.as_deref().unwrap();
    assert!(responder.message.as_deref() == Some("work goes on") && failure.contains("500"), "{responder:?}");
    (endpoint, evacuation)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_breaks_after_its_refusal_is_named_beside_its_words() {
    let scene = Scene::new("broken-refusal").await;
    let refuse = json!({"answer": "Refuse", "retryAfterSeconds": 1, "message": "work goes on"});
    let (_endpoint, evacuation) = breaks_after(&scene, refuse).await;
    assert_eq!(first(&scene.get(&evacuation).await).answer, Some(Answer::Refuse));
    for command in ["why", "override"] {
        let said = said_by(&scene, command).await;
        assert!(said.contains("work goes on; since then: its reply does not count"), "{command}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_breaks_during_its_delay_is_named_while_it_lasts_and_at_its_end() {
    let scene = Scene::new("broken-delay").await;
    let delay = json!({"answer": "Delay", "delaySeconds": 15, "message": "work goes on"});
    let (_endpoint, evacuation) = breaks_after(&scene, delay).await;
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    let message = first(&ended).message.as_deref().unwrap();
    let start = "its delay ran out without a valid renewal: its reply does not count";
    assert!(message.starts_with(start) && message.contains("500"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_hangs_is_passed_over_at_its_timeout() {
    // The exchange may take 10 s, so it is the timeout that speaks.
    fails("hanging", |_| Reply::Hang, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_hangs_for_ten_seconds_is_reported_and_asked_again() {
    let scene = Scene::new("hung").await;
    let pod = scene.pod("app", registered(&scene, 600)).await;
    let first_time = AtomicBool::new(true);
    let _endpoint = Endpoint::of(&pod, scene.port, move |question| {
        if first_time.swap(false, Ordering::Relaxed) { Reply::Hang } else { Reply::Json(accepting(question)) }
    })
    .await
    .unwrap();
    let evacuation = scene.ask(&pod, json!({})).await;
    let said = scene.event("Pod", "app", "PushFailed").await;
    assert!(said.contains("did not reply"), "{said}");
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    assert_eq!(first(&ended).answer, Some(Answer::Accept));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_drips_its_reply_is_passed_over_at_its_timeout() {
    let drip = |question: &ReviewRequest| Reply::Drip(Duration::from_millis(500), accepting(question));
    fails("dripping", drip, "").await;
}

/// A pod's own endpoint sends the question elsewhere, where it would be accepted.
async fn redirected(code: &str) {
    let scene = Scene::new("redirect").await;
    let (pod, other) =
        tokio::join!(scene.pod("app", registered(&scene, 3)), scene.pod("other", PodSpec::default()));
    let elsewhere =
        Endpoint::of(&other, scene.port, |question| Reply::Json(accepting(question))).await.unwrap();
    let ip = other.status.as_ref().unwrap().pod_ip.clone().unwrap();
    let location = format!("http://{ip}:{}/evacuation", scene.port);
    let redirect = format!("HTTP/1.1 {code}\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
    let _endpoint =
        Endpoint::of(&pod, scene.port, move |_| Reply::Bytes(redirect.clone().into_bytes())).await.unwrap();
    let evacuation = scene.ask(&pod, json!({})).await;
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    assert_eq!((first(&ended).state, first(&ended).answer), (ResponderState::Interrupted, None));
    let said = scene.event("Pod", "app", "PushFailed").await;
    assert!(said.contains(&code[..3]), "{said}");
    assert!(elsewhere.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_not_followed() {
    tokio::join!(redirected("302 Found"), redirected("307 Temporary Redirect"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_says_its_address_is_the_clouds_metadata_is_not_asked_there() {
    let scene = Scene::new("metadata").await;
    let pod = scene.pod("app", registered(&scene, 3)).await;
    let address = json!({"status": {"podIP": "169.254.169.254", "podIPs": [{"ip": "169.254.169.254"}]}});
    let params = PatchParams::default();
    let api = scene.pods.api();
    api.patch_status("app", &params, &Patch::Merge(address)).await.unwrap();
    let evacuation = scene.ask(&pod, json!({})).await;
    let said = scene.event("Pod", "app", "PushFailed").await;
    assert!(said.contains("a link-local address, which is never asked: 169.254.169.254"), "{said}");
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    assert_eq!(first(&ended).state, ResponderState::Interrupted);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_is_not_up_yet_is_asked_until_it_is() {
    let scene = Scene::new("late-start").await;
    let pod = scene.pod("app", registered(&scene, 60)).await;
    let evacuation = scene.ask(&pod, json!({})).await;
    let is_out_of_reach = |e: &Evacuation| first(e).unreachable_time.is_some();
    let seen = scene.until(&evacuation, "it is out of reach", is_out_of_reach).await;
    let message = first(&seen).message.clone().unwrap();
    assert!(message.starts_with("it could not be asked: "), "{message}");
    scene.event("Pod", "app", "PushFailed").await;
    let _endpoint =
        Endpoint::of(&pod, scene.port, |question| Reply::Json(accepting(question))).await.unwrap();
    let ended = scene.ends(&evacuation, "Evacuated Evicted").await;
    assert_eq!(first(&ended).answer, Some(Answer::Accept));
    let responder = first(&ended);
    assert!(responder.asked_time > responder.unreachable_time, "its time began anew: {responder:?}");
}
