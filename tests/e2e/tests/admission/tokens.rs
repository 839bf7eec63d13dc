//! Tokens by which the API server proves itself to webhooks: KEP-6060.

use std::collections::BTreeSet;

use controlplane::{ControlPlane, eventually};
use evacuation_e2e::{
    PlatformOptions, Pool, Scene,
    scene::{PATIENCE, refused_saying},
};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewStatus},
    rbac::v1::ClusterRoleBinding,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::{
    stage::Stage,
    webhook::{Answer, Webhook},
};

/// A platform whose cluster issues tokens for webhooks, and whose API server presents them.
static TOKENS: Pool = Pool::new(1, || PlatformOptions {
    control_plane: ControlPlane::builder().feature_gates(&[("APIServerWebhookAuthenticationToken", true)]),
    components: vec!["webhook-tokens".to_owned()],
    apiserver_args: vec![format!("--webhook-token-account=evacuation-system/{ACCOUNT}")],
    ..PlatformOptions::default()
});

const ACCOUNT: &str = "evacuation-webhook-auth";
const VALIDATING: &str = "ValidatingWebhookConfiguration";
const MUTATING: &str = "MutatingWebhookConfiguration";

/// The only token with which a webhook was called since the last look.
fn only_token(webhook: &Webhook) -> String {
    let all: BTreeSet<_> =
        webhook.authorizations().into_iter().map(|value| value.expect("a token")).collect();
    assert_eq!(all.len(), 1, "one token is enough for some minutes");
    all.first().unwrap().strip_prefix("Bearer ").unwrap().to_owned()
}

/// The audience of a webhook: its URL.
fn audience(webhook: &Webhook) -> String {
    webhook.client_config()["url"].as_str().unwrap().to_owned()
}

/// Reviews a token as a webhook does; without an audience for the kube-apiserver itself.
async fn review(scene: &Scene, token: &str, audience: Option<&str>) -> TokenReviewStatus {
    let review = json!({"metadata": {}, "spec": {"token": token, "audiences": audience.map(|one| [one])}});
    let reviews: Api<TokenReview> = Api::all(scene.admin());
    let review = serde_json::from_value(review).unwrap();
    reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap_or_default()
}

/// A token of one webhook is worth nothing elsewhere.
///
/// # Attack
///
/// - Attacker: an admission webhook for the kinds of the evacuation API
/// - Act: presents the token with which it was called to another webhook or to the kube-apiserver
/// - Promise: 12
#[tokio::test]
async fn each_webhook_is_called_with_a_token_that_counts_for_it_alone() {
    let stage = Stage::on(Scene::from_pool("tokens", &TOKENS).await);
    let hooks = [(VALIDATING, "first"), (VALIDATING, "second"), (MUTATING, "third")];
    let mut called = Vec::new();
    for (kind, name) in hooks {
        let webhook = Webhook::start(&stage, |_| Answer::Allow);
        stage.attach(kind, name, &webhook, &json!({})).await;
        called.push((kind, name, webhook));
    }
    stage.create_responder("db", &json!({})).await.unwrap();
    let tokens: Vec<String> = called.iter().map(|(_, _, webhook)| only_token(webhook)).collect();
    assert_eq!(tokens.iter().collect::<BTreeSet<_>>().len(), 3, "each has its own");
    for ((kind, name, webhook), token) in called.iter().zip(&tokens) {
        let status = review(&stage, token, Some(&audience(webhook))).await;
        assert_eq!(status.authenticated, Some(true), "{name}: {status:?}");
        let user = status.user.unwrap();
        assert_eq!(user.username, Some(format!("system:serviceaccount:evacuation-system:{ACCOUNT}")));
        let extra = user.extra.unwrap();
        let configuration = format!("authentication.kubernetes.io/{}-name", kind.to_lowercase());
        assert_eq!(extra[&configuration], [format!("{name}-{}", stage.namespace())]);
        let groups = "attestation.authentication.kubernetes.io/admissionReviewAPIGroups";
        assert_eq!(extra[groups], ["evacuation.dev"]);
        let others = called.iter().filter(|(_, other, _)| other != name);
        let mut elsewhere: Vec<_> = others.map(|(_, _, other)| Some(audience(other))).collect();
        elsewhere.push(None);
        for audience in elsewhere {
            let status = review(&stage, token, audience.as_deref()).await;
            assert_ne!(status.authenticated, Some(true), "{name} at {audience:?}: {status:?}");
        }
    }
    stage.end().await;
}

#[tokio::test]
async fn a_webhook_for_which_no_token_is_issued_counts_by_its_failure_policy() {
    let stage = Stage::on(Scene::from_pool("no-token", &TOKENS).await);
    let bindings: Api<ClusterRoleBinding> = Api::all(stage.admin());
    let mut binding = bindings.get(ACCOUNT).await.unwrap();
    bindings.delete(ACCOUNT, &DeleteParams::default()).await.unwrap();
    let closed = Webhook::start(&stage, |_| Answer::Allow);
    stage.attach_unseen(VALIDATING, "closed", &closed, &json!({})).await;
    let text = "no token of service account evacuation-system/evacuation-webhook-auth";
    let refused = eventually(PATIENCE, "the write is refused", || async {
        match stage.dry_run("refused", &json!({})).await {
            Err(kube::Error::Api(status)) if status.message.contains(text) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    refused.await.unwrap();
    refused_saying(stage.create_responder("refused", &json!({})).await, 500, text);
    let metrics = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let metrics = stage.direct(0).request_text(metrics).await.unwrap();
    let denied = "apiserver_admission_webhook_token_request_total{code=\"403\"}";
    assert!(metrics.contains(denied), "{metrics}");

    let (open, only_open) = (Webhook::start(&stage, |_| Answer::Allow), json!({"guarded": "yes"}));
    let more = json!({"failurePolicy": "Ignore", "objectSelector": {"matchLabels": only_open}});
    stage.attach_unseen(VALIDATING, "open", &open, &more).await;
    binding.metadata.resource_version = None;
    binding.metadata.uid = None;
    assert!(open.authorizations().is_empty() && closed.authorizations().is_empty(), "neither was called");
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    let called = eventually(PATIENCE, "the webhooks are called", || async {
        let outcome = stage.dry_run("probe-open", &only_open).await;
        if open.was_probed() && closed.was_probed() { Ok(()) } else { Err(format!("{outcome:?}")) }
    });
    called.await.unwrap();
    stage.end().await;
}

#[tokio::test]
async fn an_api_server_without_an_account_for_tokens_calls_webhooks_without_one() {
    let stage = Stage::new("plain").await;
    let webhook = Webhook::start(&stage, |_| Answer::Allow);
    stage.attach(VALIDATING, "plain", &webhook, &json!({})).await;
    stage.create_responder("db", &json!({})).await.unwrap();
    let authorizations = webhook.authorizations();
    assert!(authorizations.len() > 1 && authorizations.iter().all(Option::is_none), "{authorizations:?}");
    stage.end().await;
}
