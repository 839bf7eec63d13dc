use std::sync::Mutex;

use http::{Request, Response};
use k8s_openapi::{
    api::admissionregistration::v1::ValidatingWebhook, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

type Sent = Arc<Mutex<Vec<Value>>>;

/// Tokens of a cluster that issues them with that lifetime, and refuses those for the group `refused.dev`.
fn tokens(seconds: i64) -> (Tokens, Sent) {
    let sent = Sent::default();
    let record = sent.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let record = record.clone();
        async move {
            let path = request.uri().path().to_owned();
            let bytes = request.into_body().collect_bytes().await.unwrap();
            let mut asked: Value = serde_json::from_slice(&bytes).unwrap();
            let refused = asked["spec"]["attestations"][API_GROUPS][0] == "refused.dev";
            let number = {
                let mut record = record.lock().unwrap();
                record.push(json!({"path": path, "spec": asked["spec"]}));
                record.len()
            };
            asked["status"] =
                json!({"token": format!("t{number}"), "expirationTimestamp": "2026-11-25T00:00:00Z"});
            asked["spec"]["expirationSeconds"] = json!(seconds);
            let (code, answer) = if refused {
                let message = "serviceaccounts \"hooks\" is forbidden: token request denied";
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "code": 403, "reason": "Forbidden", "message": message});
                (403, status)
            } else {
                (201, asked)
            };
            let body = Body::from(answer.to_string().into_bytes());
            Ok::<_, std::io::Error>(Response::builder().status(code).body(body).unwrap())
        }
    });
    let account = "kitchen/hooks".parse().unwrap();
    (Tokens::new(Client::new(service, "default"), account, AdmissionMetrics::default()), sent)
}

/// A webhook of the configuration with that UID.
fn hook(uid: &str, client_config: &Value) -> Hook {
    let webhook = json!({
        "name": "a.test", "clientConfig": client_config, "sideEffects": "None", "admissionReviewVersions": ["v1"],
    });
    let webhook: ValidatingWebhook = serde_json::from_value(webhook).unwrap();
    let (name, uid) = (Some("c".to_owned()), Some(uid.to_owned()));
    Hook::of_validating(&ObjectMeta { name, uid, ..ObjectMeta::default() }, &webhook)
}

fn at(url: &str) -> Hook {
    hook("1", &json!({"url": url}))
}

async fn header(tokens: &Tokens, kind: HookKind, hook: &Hook, group: &str) -> String {
    let value = tokens.authorization(kind, hook, group).await.unwrap().unwrap();
    assert!(value.is_sensitive());
    value.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_token_is_bound_to_the_configuration_the_address_and_the_group() {
    let (tokens, sent) = tokens(LIFETIME);
    let hook = at("https://a.test/x?y=z");
    assert_eq!(header(&tokens, HookKind::Mutating, &hook, "kitchen.dev").await, "Bearer t1");
    let expected = json!({
        "path": "/api/v1/namespaces/kitchen/serviceaccounts/hooks/token",
        "spec": {
            "attestations": {"admissionReviewAPIGroups": ["kitchen.dev"]},
            "audiences": ["https://a.test/x?y=z"],
            "boundObjectRef": {
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
                "name": "c", "uid": "1",
            },
            "expirationSeconds": 600,
        },
    });
    assert_eq!(*sent.lock().unwrap(), [expected]);
}

/// # Attack
///
/// - Attacker: a webhook that is called with a token
/// - Act: gets a token that another webhook accepts
/// - Promise: 12
#[tokio::test]
async fn no_two_webhooks_get_the_same_token_and_one_webhook_gets_it_twice() {
    let (tokens, _) = tokens(LIFETIME);
    let (first, second) = (at("https://a.test/x"), at("https://a.test/y"));
    let again = hook("2", &json!({"url": "https://a.test/x"}));
    let mut seen = Vec::new();
    for (kind, hook, group) in [
        (HookKind::Validating, &first, "kitchen.dev"),
        (HookKind::Mutating, &first, "kitchen.dev"),
        (HookKind::Validating, &second, "kitchen.dev"),
        (HookKind::Validating, &again, "kitchen.dev"),
        (HookKind::Validating, &first, "garden.dev"),
    ] {
        let token = header(&tokens, kind, hook, group).await;
        assert!(!seen.contains(&token), "{token} was given to another");
        assert_eq!(header(&tokens, kind, hook, group).await, token);
        seen.push(token);
    }
}

#[tokio::test]
async fn a_token_is_requested_again_when_it_is_old_or_was_rejected() {
    let hook = at("https://a.test/x");
    let (short, _) = tokens(0);
    assert_eq!(header(&short, HookKind::Validating, &hook, "kitchen.dev").await, "Bearer t1");
    assert_eq!(header(&short, HookKind::Validating, &hook, "kitchen.dev").await, "Bearer t2");
    let (long, _) = tokens(LIFETIME);
    assert_eq!(header(&long, HookKind::Validating, &hook, "kitchen.dev").await, "Bearer t1");
    long.forget(HookKind::Validating, &hook, "kitchen.dev").await;
    assert_eq!(header(&long, HookKind::Validating, &hook, "kitchen.dev").await, "Bearer t2");
}

#[tokio::test]
async fn a_refused_token_names_the_account_and_is_asked_for_again() {
    let (tokens, sent) = tokens(LIFETIME);
    let hook = at("https://a.test/x");
    for _ in 0..2 {
        let refused = tokens.authorization(HookKind::Validating, &hook, "refused.dev").await.unwrap_err();
        let text = refused.to_string();
        assert!(text.starts_with("no token of service account kitchen/hooks: "), "{text}");
        assert!(text.contains("token request denied"), "{text}");
    }
    assert_eq!(sent.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_webhook_without_an_address_gets_no_token() {
    let (tokens, sent) = tokens(LIFETIME);
    let none = tokens.authorization(HookKind::Validating, &hook("1", &json!({})), "kitchen.dev").await;
    assert!(none.unwrap().is_none() && sent.lock().unwrap().is_empty());
}

#[test]
fn an_audience_is_the_one_that_kube_apiserver_derives() {
    let service = |more: Value| {
        let mut service = json!({"namespace": "n", "name": "s"});
        service.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"service": service})
    };
    for (config, expected) in [
        (json!({"url": "https://a.test:8443/x?y"}), Some("https://a.test:8443/x?y")),
        (service(json!({})), Some("https://s.n.svc:443/")),
        (service(json!({"path": "x"})), Some("https://s.n.svc:443/x")),
        (service(json!({"path": "/x/", "port": 8443})), Some("https://s.n.svc:8443/x/")),
        (json!({}), None),
    ] {
        assert_eq!(audience(&hook("1", &config).client.address).as_deref(), expected, "{config}");
    }
}

#[test]
fn an_account_is_a_namespace_and_a_name() {
    let account: TokenAccount = "a/b".parse().unwrap();
    assert_eq!((account.namespace.as_str(), account.name.as_str()), ("a", "b"));
    for wrong in ["", "a", "a/", "/b", "a/b/c"] {
        assert!(wrong.parse::<TokenAccount>().is_err(), "{wrong}");
    }
}
