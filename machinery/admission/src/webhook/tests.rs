//! Calls of webhooks that never leave the process. The end-to-end suite has those that do.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::admissionregistration::v1::ValidatingWebhook, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use machinery_server::ApiError;
use serde_json::{Value, json};

use super::{Caller, Clients, Hook, call::HookKind, validate};
use crate::{
    cel::Evaluator,
    limiter::Limiter,
    metrics::AdmissionMetrics,
    testing::{Admins, Write},
};

/// A caller whose cluster does not answer.
fn caller() -> Caller {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = kube::Config::new("https://127.0.0.1:1/".parse().unwrap());
    let limiter = Limiter::new(8, vec!["controller".to_owned()].into());
    Caller {
        clients: Clients::new(kube::Client::try_from(config).unwrap()),
        tokens: None,
        limiter: limiter.clone(),
        metrics: AdmissionMetrics::default(),
        evaluator: Evaluator { authorizer: Arc::new(Admins), limiter },
    }
}

/// A webhook without a server.
fn hook(more: &Value) -> Arc<Hook> {
    let mut webhook = json!({
        "name": "a.test", "clientConfig": {"url": "https://127.0.0.1:1/"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
    });
    for (field, value) in more.as_object().unwrap() {
        webhook[field] = value.clone();
    }
    Arc::new(Hook::of_validating(
        &ObjectMeta::default(),
        &serde_json::from_value::<ValidatingWebhook>(webhook).unwrap(),
    ))
}

async fn called(caller: &Caller, write: &Write, more: Value) -> Result<(), (u16, String)> {
    let attributes = write.attributes();
    let result = validate(caller, &[hook(&more)], &write.subject(&attributes)).await;
    result.map_err(|error: ApiError| (error.code(), error.to_string()))
}

#[tokio::test]
async fn a_webhook_with_side_effects_refuses_dry_runs_whatever_its_policy() {
    let mut write = Write::create(json!({}));
    write.context.dry_run = true;
    for effects in ["Some", "Unknown"] {
        let more = json!({"sideEffects": effects, "failurePolicy": "Ignore"});
        let refused = called(&caller(), &write, more).await.unwrap_err();
        let text = "admission webhook \"a.test\" does not support dry run";
        assert_eq!(refused, (400, text.to_owned()));
    }
}

#[tokio::test]
async fn a_webhook_that_cannot_be_reached_counts_by_its_failure_policy() {
    let write = Write::create(json!({}));
    assert_eq!(called(&caller(), &write, json!({"failurePolicy": "Ignore"})).await, Ok(()));
    let cases = [
        (json!({}), "failed to call webhook: Post \"https://127.0.0.1:1/?timeout=1s\": "),
        (
            json!({"clientConfig": {}}),
            "failed to call webhook: clientConfig must have one of url and service",
        ),
        (
            json!({"admissionReviewVersions": ["v9"]}),
            "webhook does not accept known AdmissionReview versions",
        ),
        (
            json!({"clientConfig": {"service": {"namespace": "n", "name": "s"}}}),
            "failed to call webhook: service n/s cannot be read: ",
        ),
    ];
    for (more, text) in cases {
        let (code, message) = called(&caller(), &write, more).await.unwrap_err();
        assert_eq!(code, 500);
        assert!(
            message.starts_with("Internal error occurred: failed calling webhook \"a.test\": "),
            "{message}"
        );
        assert!(message.contains(text), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_beyond_its_share_is_refused_and_never_let_pass() {
    let caller = caller();
    let write = Write::create(json!({}));
    let mut places = Vec::new();
    while let Some(place) = caller.limiter.enter("jane", Duration::from_millis(1)).await {
        places.push(place);
    }
    let (code, message) = called(&caller, &write, json!({"failurePolicy": "Ignore"})).await.unwrap_err();
    assert_eq!(code, 429, "{message}");
    drop(places);
    assert_eq!(called(&caller, &write, json!({"failurePolicy": "Ignore"})).await, Ok(()));
}

#[tokio::test]
async fn a_condition_that_fails_counts_by_the_failure_policy_and_a_false_one_skips_the_call() {
    let write = Write::create(json!({"spec": {"servings": 2}}));
    let condition = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    assert_eq!(called(&caller(), &write, condition("object.spec.servings > 2")).await, Ok(()));
    let (code, message) = called(&caller(), &write, condition("object.absent == 1")).await.unwrap_err();
    assert_eq!(code, 403, "{message}");
    assert!(message.starts_with("pots.kitchen.dev \"a\" is forbidden: expression"), "{message}");
    let mut open = condition("object.absent == 1");
    open["failurePolicy"] = json!("Ignore");
    assert_eq!(called(&caller(), &write, open).await, Ok(()));
    let attributes = write.attributes();
    let called = caller().call(HookKind::Validating, &hook(&json!({})), &write.subject(&attributes)).await;
    assert!(called.is_err(), "it has no server");
}
