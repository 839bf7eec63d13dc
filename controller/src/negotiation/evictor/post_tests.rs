use kube::client::Body;
use serde_json::{Value, json};
use tower_test::mock::{self, Handle};

use super::*;

type Mock = Handle<http::Request<Body>, http::Response<Body>>;

fn order(manner: Manner) -> Order {
    Order {
        manner,
        pod: ObjectKey::new("ns", "db-0"),
        uid: "p1".into(),
        grace_period_seconds: Some(7),
        budgets: vec!["db".into()],
    }
}

/// Those of an attempt that begins now.
fn timeouts() -> Timeouts {
    Timeouts::within(Duration::from_secs(9)).unwrap()
}

#[test]
fn the_fence_no_attempt_takes_effect_after_its_last_moment() {
    for milliseconds in 0..9000 {
        let left = Duration::from_millis(milliseconds);
        match Timeouts::within(left) {
            // Received at the last moment, and carried out at the last moment.
            Some(timeouts) => assert!(timeouts.client + timeouts.server <= left, "{left:?}: {timeouts:?}"),
            None => assert!(left < Timeouts::least(), "{left:?}"),
        }
    }
    let whole = Duration::from_secs(9);
    let expected = Timeouts { client: Duration::from_secs(5), server: Duration::from_secs(4) };
    assert_eq!(Timeouts::within(whole), Some(expected));
}

fn status(code: u16, reason: &str, message: &str, details: &Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
           "message": message, "details": details})
}

fn pod(uid: &str, terminating: bool) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "ns", "name": "db-0", "uid": uid}});
    if terminating {
        pod["metadata"]["deletionTimestamp"] = json!("2026-11-20T22:00:00Z");
    }
    pod
}

async fn reply(handle: &mut Mock, code: u16, body: &Value) -> (http::Method, String, Value) {
    let (request, send) = handle.next_request().await.unwrap();
    let (parts, request_body) = request.into_parts();
    let bytes = http_body_util::BodyExt::collect(request_body).await.unwrap().to_bytes();
    let response =
        http::Response::builder().status(code).body(Body::from(serde_json::to_vec(body).unwrap())).unwrap();
    send.send_response(response);
    (parts.method, parts.uri.to_string(), serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Outcome of an order when the API replies so, one request after another.
async fn outcome(order: Order, replies: Vec<(u16, Value)>) -> Option<EvictionOutcome> {
    let (service, mut handle) = mock::pair();
    let client = Client::new(service, "default");
    let api = tokio::spawn(async move {
        for (code, body) in replies {
            reply(&mut handle, code, &body).await;
        }
        handle
    });
    let outcome = post(&client, &order, timeouts()).await;
    api.await.unwrap();
    outcome
}

#[tokio::test]
async fn an_eviction_carries_the_uid_the_grace_period_and_a_time_limit() {
    let (service, mut handle) = mock::pair();
    let client = Client::new(service, "default");
    let api = tokio::spawn(async move {
        reply(
            &mut handle,
            201,
            &json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}),
        )
        .await
    });
    let outcome = post(&client, &order(Manner::Evict), timeouts()).await;
    assert_eq!(outcome, Some(EvictionOutcome::Accepted));
    let (method, uri, body) = api.await.unwrap();
    assert_eq!(
        (method, uri.as_str()),
        (http::Method::POST, "/api/v1/namespaces/ns/pods/db-0/eviction?timeout=4000ms")
    );
    assert_eq!(body["deleteOptions"]["preconditions"]["uid"], "p1");
    assert_eq!(body["deleteOptions"]["gracePeriodSeconds"], 7);
    assert_eq!((&body["kind"], &body["metadata"]["name"]), (&json!("Eviction"), &json!("db-0")));
}

#[tokio::test]
async fn a_deletion_carries_the_uid_and_the_grace_period() {
    let (service, mut handle) = mock::pair();
    let client = Client::new(service, "default");
    let api = tokio::spawn(async move { reply(&mut handle, 200, &pod("p1", true)).await });
    let outcome = post(&client, &order(Manner::Delete), timeouts()).await;
    assert_eq!(outcome, Some(EvictionOutcome::Accepted));
    let (method, uri, body) = api.await.unwrap();
    assert_eq!(
        (method, uri.as_str()),
        (http::Method::DELETE, "/api/v1/namespaces/ns/pods/db-0?timeout=4000ms")
    );
    assert_eq!(body["preconditions"]["uid"], "p1");
    assert_eq!(body["gracePeriodSeconds"], 7);
}

#[tokio::test]
async fn every_reply_of_the_api_has_its_meaning() {
    let budget = json!({"retryAfterSeconds": 10, "causes": [
        {"reason": "DisruptionBudget", "message": "The disruption budget db needs 3 healthy pods and has 3 currently"}
    ]});
    let lost_budget = json!({"name": "db", "group": "policy", "kind": "poddisruptionbudgets"});
    let many =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    let rejected = |retry_after_seconds, message: &str| {
        Some(EvictionOutcome::Rejected { retry_after_seconds, message: message.into() })
    };
    let table = vec![
        (
            "a budget that is exhausted",
            vec![(429, status(429, "TooManyRequests", "Cannot evict pod", &budget))],
            Some(EvictionOutcome::BudgetExhausted {
                retry_after_seconds: Some(10),
                message: "The disruption budget db needs 3 healthy pods and has 3 currently".into(),
                budgets: vec!["db".into()],
            }),
        ),
        (
            "a budget that is exhausted, by a refusal with the code of a webhook",
            vec![(403, status(403, "Forbidden", "Cannot evict pod", &budget))],
            Some(EvictionOutcome::BudgetExhausted {
                retry_after_seconds: Some(10),
                message: "The disruption budget db needs 3 healthy pods and has 3 currently".into(),
                budgets: vec!["db".into()],
            }),
        ),
        (
            "a webhook that asks for patience",
            vec![(429, status(429, "TooManyRequests", "later", &json!({"retryAfterSeconds": 3})))],
            rejected(Some(3), "later"),
        ),
        (
            "two budgets",
            vec![(500, status(500, "", many, &json!({})))],
            Some(EvictionOutcome::MultipleBudgets { message: many.into(), budgets: vec!["db".into()] }),
        ),
        (
            "two budgets, in a reply with a code that says otherwise",
            vec![(201, status(500, "", many, &json!({})))],
            Some(EvictionOutcome::MultipleBudgets { message: many.into(), budgets: vec!["db".into()] }),
        ),
        (
            "no pod",
            vec![
                (404, status(404, "NotFound", "no", &json!({}))),
                (404, status(404, "NotFound", "no", &json!({}))),
            ],
            Some(EvictionOutcome::PodGone),
        ),
        (
            "a budget that was deleted while it was asked",
            vec![(404, status(404, "NotFound", "no budget", &lost_budget)), (200, pod("p1", false))],
            rejected(None, "no budget"),
        ),
        (
            "no pod, and another of its name by now",
            vec![(404, status(404, "NotFound", "no", &json!({}))), (200, pod("p2", false))],
            Some(EvictionOutcome::UidMismatch),
        ),
        (
            "a pod of another UID",
            vec![(409, status(409, "Conflict", "the UID", &json!({}))), (200, pod("p2", false))],
            Some(EvictionOutcome::UidMismatch),
        ),
        (
            "a conflict over a pod that is still the target",
            vec![(409, status(409, "Conflict", "changed", &json!({}))), (200, pod("p1", false))],
            rejected(None, "changed"),
        ),
        (
            "a failure after which the pod terminates all the same",
            vec![(500, status(500, "InternalError", "oops", &json!({}))), (200, pod("p1", true))],
            Some(EvictionOutcome::Accepted),
        ),
        (
            "a webhook that denies",
            vec![(403, status(403, "Forbidden", "denied", &json!({}))), (200, pod("p1", false))],
            rejected(None, "denied"),
        ),
        ("a timeout in the server", vec![(504, status(504, "Timeout", "slow", &json!({})))], None),
        ("an unavailable server", vec![(503, status(503, "ServiceUnavailable", "down", &json!({})))], None),
        ("etcd in trouble", vec![(500, status(500, "", "etcdserver: request timed out", &json!({})))], None),
    ];
    for (name, replies, expected) in table {
        assert_eq!(outcome(order(Manner::Evict), replies).await, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_a_reply_is_lost_after_its_time() {
    let (service, mut handle) = mock::pair::<http::Request<Body>, http::Response<Body>>();
    let client = Client::new(service, "default");
    let began = tokio::time::Instant::now();
    let held = tokio::spawn(async move {
        let held = handle.next_request().await;
        std::future::pending::<()>().await;
        drop(held);
    });
    assert_eq!(post(&client, &order(Manner::Evict), timeouts()).await, None);
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    held.abort();
}
