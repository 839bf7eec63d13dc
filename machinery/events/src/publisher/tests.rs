//! The publisher against an API that records what it is asked.

use std::sync::{Arc, Mutex, atomic::AtomicUsize};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::Semaphore;
use tower_test::mock;

use super::*;
use crate::Notice;

/// A sink with its publisher, and the writes that the API took.
struct Fixture {
    sink: EventSink,
    writes: Arc<Mutex<Vec<(Method, Value)>>>,
    /// One permit for each request that the API answers.
    answers: Arc<Semaphore>,
    /// Number of requests that the API refuses before it takes one, and with which Status.
    refusals: Arc<AtomicUsize>,
    refusal: Arc<Mutex<Value>>,
}

impl Fixture {
    fn new(answers: usize) -> Self {
        let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
        let (sink, answers) = (EventSink::default(), Arc::new(Semaphore::new(answers)));
        let writes = Arc::<Mutex<Vec<(Method, Value)>>>::default();
        let (written, permits) = (Arc::clone(&writes), Arc::clone(&answers));
        let refusals = Arc::new(AtomicUsize::new(0));
        let refused = Arc::clone(&refusals);
        let status =
            json!({"kind": "Status", "status": "Failure", "code": 503, "reason": "x", "message": ""});
        let refusal = Arc::new(Mutex::new(status));
        let said = Arc::clone(&refusal);
        tokio::spawn(async move {
            while let Some((request, send)) = handle.next_request().await {
                permits.acquire().await.unwrap().forget();
                let left = |count: usize| count.checked_sub(1);
                if refused.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok() {
                    let status = said.lock().unwrap().clone();
                    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap();
                    let reply = Response::builder().status(code);
                    send.send_response(reply.body(Body::from(status.to_string().into_bytes())).unwrap());
                    continue;
                }
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await.unwrap().to_bytes();
                let body: Value = serde_json::from_slice(&bytes).unwrap();
                written.lock().unwrap().push((parts.method, body.clone()));
                let reply = json!({"metadata": {"name": "x"}, "eventTime": null});
                send.send_response(Response::new(Body::from(reply.to_string().into_bytes())));
            }
        });
        let client = Client::new(service, "default");
        let reporter = Reporter { controller: "me", instance: "me-1".to_owned(), action: "Test" };
        tokio::spawn(publish_events(client, reporter, sink.clone(), CancellationToken::new()));
        Self { sink, writes, answers, refusals, refusal }
    }

    fn writes(&self, method: &Method) -> Vec<Value> {
        let writes = self.writes.lock().unwrap();
        writes.iter().filter(|(of, _)| of == method).map(|(_, body)| body.clone()).collect()
    }
}

fn object(name: &str) -> ObjectReference {
    serde_json::from_value(json!({"kind": "Depot", "namespace": "ns", "name": name, "uid": name})).unwrap()
}

#[test]
fn an_event_about_an_object_with_the_longest_name_has_a_legal_name() {
    let reporter = Reporter { controller: "me", instance: "me-1".to_owned(), action: "Test" };
    let dots = format!("{}a", "a.".repeat(126));
    for name in ["a", &"a".repeat(63), &"a".repeat(252), &"a".repeat(253), &dots] {
        let record = Record::new(Notice::normal("X", String::new()), object(name), None);
        let event = event(&record, &reporter).metadata.name.unwrap();
        assert_eq!(machinery_validation::dns1123_subdomain(&event), [""; 0], "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_is_renewed_for_half_an_hour_is_one_event_with_a_count() {
    let fixture = Fixture::new(1000);
    for _ in 0..225 {
        fixture.sink.send(object("e"), None, Notice::progress("Delayed", "a delay".to_owned()));
        sleep(Duration::from_secs(8)).await;
    }
    sleep(Duration::from_mins(1)).await;
    assert_eq!(fixture.writes(&Method::POST).len(), 1);
    let patches = fixture.writes(&Method::PATCH);
    assert!(patches.len() <= 62, "{} patches", patches.len());
    assert_eq!(patches.last().unwrap()["series"]["count"], 225);
}

#[tokio::test(start_paused = true)]
async fn while_the_api_is_slow_warnings_and_ends_come_first_and_none_is_lost() {
    let fixture = Fixture::new(0);
    for number in 0..2000 {
        fixture.sink.send(
            object(&number.to_string()),
            None,
            Notice::progress("Delayed", "a delay".to_owned()),
        );
    }
    for number in 0..100 {
        let warning = Notice::warning("EvictionBlocked", "a budget".to_owned());
        fixture.sink.send(object(&number.to_string()), None, warning);
    }
    fixture.answers.add_permits(10_000);
    sleep(Duration::from_mins(1)).await;
    let reasons: Vec<Value> =
        fixture.writes(&Method::POST).iter().map(|event| event["reason"].clone()).collect();
    let blocked = reasons.iter().filter(|reason| *reason == "EvictionBlocked").count();
    assert_eq!(blocked, 100);
    assert!(reasons[..100].iter().all(|reason| reason == "EvictionBlocked"));
}

#[tokio::test(start_paused = true)]
async fn a_warning_that_the_api_refuses_for_a_while_is_not_lost() {
    let fixture = Fixture::new(1000);
    fixture.refusals.store(3, Ordering::Relaxed);
    fixture.sink.send(object("e"), None, Notice::warning("EvictionBlocked", "a budget".to_owned()));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(fixture.writes(&Method::POST).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_api_refuses_for_good_counts_as_dropped_unless_its_namespace_goes() {
    let fixture = Fixture::new(1000);
    let terminating = json!({"causes": [{"reason": "NamespaceTerminating"}]});
    for (number, (code, details, dropped)) in
        [(422, json!({}), 1), (404, json!({}), 1), (403, terminating, 1), (403, json!({}), 2)]
            .into_iter()
            .enumerate()
    {
        *fixture.refusal.lock().unwrap() = json!({
            "kind": "Status", "status": "Failure", "code": code, "reason": "x", "message": "", "details": details,
        });
        fixture.refusals.store(1, Ordering::Relaxed);
        let notice = Notice::warning("EvictionBlocked", "a budget".to_owned());
        fixture.sink.send(object(&format!("e-{number}")), None, notice);
        sleep(Duration::from_mins(1)).await;
        assert_eq!(fixture.sink.dropped().get(), dropped, "{code}");
    }
    assert_eq!(fixture.writes(&Method::POST).len(), 0);
}
