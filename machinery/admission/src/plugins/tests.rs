use k8s_openapi::{
    api::admissionregistration::v1::ValidatingWebhook, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::json;

use super::*;
use crate::{
    configurations::Snapshot,
    testing::{Admins, Namespaces, Write},
    watch::Synced,
};

/// Parts without quotas, in a cluster that does not answer.
fn parts(configurations: Configurations) -> Arc<Parts> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::try_from(kube::Config::new("https://127.0.0.1:1/".parse().unwrap())).unwrap();
    let (metrics, limiter) = (AdmissionMetrics::default(), Limiter::new(8, Vec::new().into()));
    let evaluator = Evaluator { authorizer: Arc::new(Admins), limiter: limiter.clone() };
    let clients = Clients::new(client.clone());
    let caller =
        Caller { clients, tokens: None, limiter, metrics: metrics.clone(), evaluator: evaluator.clone() };
    let enforcer = Enforcer { evaluator, params: Params::new(client), metrics };
    Arc::new(Parts { configurations, namespaces: Arc::new(Namespaces), caller, enforcer, quotas: None })
}

/// A state with one validating webhook, which cannot be reached.
fn one_webhook() -> Snapshot {
    let webhook: ValidatingWebhook = serde_json::from_value(json!({
        "name": "a.test", "clientConfig": {"url": "https://127.0.0.1:1/"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
    }))
    .unwrap();
    Snapshot {
        validating: vec![Arc::new(Hook::of_validating(&ObjectMeta::default(), &webhook))],
        ..Snapshot::default()
    }
}

#[tokio::test]
async fn a_write_that_waited_for_the_configurations_is_decided_by_one_state_of_them() {
    let synced = Synced::default();
    let configurations = Configurations::fixed(one_webhook(), synced.clone());
    let plugins = Plugins { parts: parts(configurations) };
    let write = Write::create(json!({}));
    let attributes = write.attributes();
    let waiting = plugins.intercept(&attributes).unwrap();
    let mutation = waiting.mutate(&attributes, None, None);
    let sync = async { synced.set() };
    tokio::join!(async { mutation.await.unwrap() }, sync);
    plugins.parts.configurations.replace(Snapshot::default());
    assert!(plugins.intercept(&attributes).is_none(), "later writes see the new state");
    let refused = waiting.validate(&attributes, write.object.as_ref(), None).await.unwrap_err();
    assert!(refused.to_string().contains("failed calling webhook"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_refused_when_the_configurations_are_not_read_in_time() {
    let configurations = Configurations::fixed(Snapshot::default(), Synced::default());
    let plugins = Plugins { parts: parts(configurations) };
    let write = Write::create(json!({}));
    let attributes = write.attributes();
    let waiting = plugins.intercept(&attributes).unwrap();
    let refused = waiting.mutate(&attributes, None, None).await.unwrap_err();
    assert!(refused.to_string().contains("not yet ready to handle request"), "{refused}");
}
