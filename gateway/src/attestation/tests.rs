use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http::{Request, Response};
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::*;

const OWN: &str = "https://evacuation-gateway.evacuation-system.svc:443";

/// The user of a token that is bound to a configuration, for these API groups.
fn bearer(kind: &str, name: &str, groups: &[&str]) -> Value {
    json!({
        "username": "system:serviceaccount:kube-system:webhook-auth",
        "extra": {
            format!("authentication.kubernetes.io/{kind}webhookconfiguration-name"): [name],
            "attestation.authentication.kubernetes.io/admissionReviewAPIGroups": groups,
        },
    })
}

/// Tokens of a cluster: their audiences and their bearers.
fn known(token: &str) -> Option<(String, Value)> {
    let path = format!("{OWN}/evict/secret");
    let own = |groups: &[&str]| bearer("validating", "evacuation-gateway", groups);
    let pod = json!({"username": "system:serviceaccount:shop:db", "extra": {}});
    Some(match token {
        "own" => (path, own(&["*"])),
        "host" => (format!("{OWN}/"), own(&["*"])),
        "aggregated" => (path, own(&["evacuation.dev"])),
        "two" => (path, own(&["*", "apps"])),
        "mutating" => (path, bearer("mutating", "evacuation-gateway", &["*"])),
        "foreign" => (path, bearer("validating", "policies", &["*"])),
        "pod" => (path, pod),
        "delete" => (format!("{OWN}/delete/secret"), own(&["*"])),
        "rotated" => (format!("{OWN}/evict/new"), own(&["*"])),
        _ => return None,
    })
}

/// A judge in that cluster, which has the webhooks of the gateway, and the reviews so far.
fn attestations() -> (Attestations, Arc<Mutex<usize>>) {
    let count = Arc::<Mutex<usize>>::default();
    let counted = count.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let count = counted.clone();
        async move {
            *count.lock().unwrap() += 1;
            let bytes = request.into_body().collect_bytes().await.unwrap();
            let mut review: Value = serde_json::from_slice(&bytes).unwrap();
            let token = review["spec"]["token"].as_str().unwrap().to_owned();
            if token == "slow" {
                return std::future::pending().await;
            }
            let asked = review["spec"]["audiences"].as_array().cloned().unwrap_or_default();
            let issued = known(&token).filter(|(audience, _)| asked.contains(&json!(audience)));
            review["status"] = match issued {
                Some((audience, user)) => {
                    json!({"authenticated": true, "audiences": [audience], "user": user})
                }
                None => json!({"error": "invalid bearer token"}),
            };
            let reply = Response::builder().status(201).body(Body::from(review.to_string().into_bytes()));
            Ok::<_, Infallible>(reply.unwrap())
        }
    });
    let judge = Attestations::new(Client::new(service, "default"), "evacuation-gateway");
    (judge, count)
}

fn configuration(config: &dyn Fn(&str) -> Value) -> ValidatingWebhookConfiguration {
    let webhook = |word: &str| {
        json!({
            "name": format!("{word}.gateway.evacuation.dev"), "clientConfig": config(word),
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        })
    };
    let webhooks = ["evict", "delete", "warn"].map(webhook);
    serde_json::from_value(json!({"metadata": {"name": "evacuation-gateway"}, "webhooks": webhooks})).unwrap()
}

fn of_service(_: &str) -> Value {
    json!({"service": {"namespace": "evacuation-system", "name": "evacuation-gateway", "path": "/old"}})
}

async fn code(judge: &Attestations, authorization: Option<&str>) -> u16 {
    let checked = judge.check("/evict/secret", authorization).await;
    checked.map_or_else(|error| error.code(), |()| 200)
}

/// # Attack
///
/// - Attacker: a holder of the secret path
/// - Act: calls without a token, or with one of another webhook, of a pod, or of an aggregated API server
/// - Promise: 12
#[tokio::test(start_paused = true)]
async fn only_a_token_of_the_kube_apiserver_for_the_gateways_own_webhook_is_accepted() {
    let (judge, _) = attestations();
    judge.learn(&configuration(&of_service));
    for (authorization, expected) in [
        (Some("Bearer own"), 200),
        (Some("Bearer host"), 200),
        (None, 401),
        (Some("Basic own"), 401),
        (Some("Bearer made-up"), 401),
        (Some("Bearer delete"), 401),
        (Some("Bearer rotated"), 401),
        (Some("Bearer aggregated"), 403),
        (Some("Bearer two"), 403),
        (Some("Bearer mutating"), 403),
        (Some("Bearer foreign"), 403),
        (Some("Bearer pod"), 403),
    ] {
        assert_eq!(code(&judge, authorization).await, expected, "{authorization:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_cannot_be_reviewed_in_time_is_no_fault_of_the_caller() {
    let (judge, count) = attestations();
    assert_eq!(code(&judge, Some("Bearer own")).await, 503, "the configuration is not known");
    assert_eq!(*count.lock().unwrap(), 0);
    judge.learn(&configuration(&of_service));
    assert_eq!(code(&judge, Some("Bearer slow")).await, 503);
    assert_eq!(code(&judge, Some("Bearer own")).await, 200);
}

#[tokio::test(start_paused = true)]
async fn an_accepted_token_is_reviewed_again_after_ten_seconds() {
    let (judge, count) = attestations();
    judge.learn(&configuration(&of_service));
    for (expected, pause) in [(1, 9), (1, 2), (2, 0)] {
        assert_eq!(code(&judge, Some("Bearer own")).await, 200);
        assert_eq!(*count.lock().unwrap(), expected);
        tokio::time::advance(Duration::from_secs(pause)).await;
    }
}

#[tokio::test]
async fn the_audiences_of_a_path_are_its_url_and_the_url_of_its_host() {
    let (judge, _) = attestations();
    judge.learn(&configuration(&|word| match word {
        "evict" => json!({"url": "https://127.0.0.1:8443/evict/old?x=y"}),
        "warn" => json!({"service": {"namespace": "n", "name": "s", "port": 444}}),
        _ => json!({}),
    }));
    let audiences = |path: &str| judge.audiences(path);
    let expected = |urls: [&str; 2]| Some(urls.map(str::to_owned));
    assert_eq!(
        audiences("/evict/t"),
        expected(["https://127.0.0.1:8443/evict/t", "https://127.0.0.1:8443/"])
    );
    assert_eq!(audiences("/warn/t"), expected(["https://s.n.svc:444/warn/t", "https://s.n.svc:444/"]));
    assert_eq!((audiences("/delete/t"), audiences("/")), (None, None));
}
