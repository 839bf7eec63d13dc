//! The token in the paths of the webhooks: kept in a Secret, and written into the webhook configuration.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{ValidatingWebhook, ValidatingWebhookConfiguration},
        core::v1::Secret,
    },
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    core::PartialObjectMeta,
};
use machinery_watch::{Projected, Watch, backoff, follow};
use rand::RngExt;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{attestation::Attestations, cluster::Identity, path_tokens::PathTokens};

/// Key of the token in the Secret.
const KEY: &str = "token";
/// Minimum length of a token, in characters. One of the gateway's has 256 bits in 64.
const MIN_LENGTH: usize = 32;
/// Shortest and longest time between two attempts after a failure, without a change.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// Time in which each replica learns a new token, before the kube-apiserver does.
const SPREAD: Duration = Duration::from_secs(5);
/// Maximum time of a request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reason for which the paths could not be set.
#[derive(Debug, thiserror::Error)]
enum PathError {
    /// The kube-apiserver rejected a request.
    #[error("the kube-apiserver did not take the request")]
    Api(#[from] kube::Error),
    /// The kube-apiserver did not answer in time.
    #[error("the kube-apiserver did not answer in time")]
    Late(#[from] tokio::time::error::Elapsed),
    /// The token in the Secret cannot be part of a path.
    #[error("its key token must have at least {MIN_LENGTH} letters and digits")]
    Token,
}

/// Keeps the token and the paths. All replicas do, and each write has a precondition.
pub(super) struct PathToken {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) secrets: Api<Secret>,
    pub(super) configurations: Api<ValidatingWebhookConfiguration>,
    pub(super) secret: String,
    pub(super) configuration: String,
    pub(super) tokens: Arc<PathTokens>,
    /// Judge of the tokens of calls, which learns the addresses of the webhooks.
    pub(super) attestations: Option<Arc<Attestations>>,
}

impl PathToken {
    /// Returns the keeper for a Secret of that namespace and a webhook configuration.
    pub(super) fn new(
        client: &Client,
        (namespace, secret): (&str, &str),
        configuration: &str,
        (tokens, attestations): (Arc<PathTokens>, Option<Arc<Attestations>>),
    ) -> Self {
        Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
            secrets: Api::namespaced(client.clone(), namespace),
            configurations: Api::all(client.clone()),
            secret: secret.to_owned(),
            configuration: configuration.to_owned(),
            tokens,
            attestations,
        }
    }

    /// Sets the paths at the start and after each change of the Secret or of the configuration.
    pub(super) async fn run(self, shutdown: CancellationToken) {
        type Seen<K> = Api<Projected<PartialObjectMeta<K>, Identity>>;
        let secrets = Seen::<Secret>::namespaced(self.client.clone(), &self.namespace);
        let configurations = Seen::<ValidatingWebhookConfiguration>::all(self.client.clone());
        let named = |name: &str| format!("metadata.name={name}");
        let (secret, configuration) = (named(&self.secret), named(&self.configuration));
        let secret = Watch { name: "watch of the secret with the token", fields: Some(&secret) };
        let configuration =
            Watch { name: "watch of the webhook configuration", fields: Some(&configuration) };
        // The state is read, so a change says only when.
        let changed = Notify::new();
        let sets = async {
            loop {
                changed.notified().await;
                self.set_with_retries(&changed).await;
            }
        };
        tokio::select! {
            () = follow(secrets, secret, shutdown.clone(), |_| changed.notify_one()) => {}
            () = follow(configurations, configuration, shutdown.clone(), |_| changed.notify_one()) => {}
            () = sets => {}
        }
    }

    async fn set_with_retries(&self, changed: &Notify) {
        let mut failures = 0;
        while let Err(error) = self.set().await {
            let (secret, configuration) = (&self.secret, &self.configuration);
            warn!(
                error = &error as &dyn std::error::Error,
                "webhook configuration {configuration}: its paths did not get the token of secret {secret}"
            );
            failures += 1;
            tokio::select! {
                () = changed.notified() => failures = 0,
                () = tokio::time::sleep(backoff(RETRY.0, RETRY.1, failures)) => {}
            }
        }
    }

    /// Reads the token, makes it when there is none, and writes it into the paths that lack it.
    async fn set(&self) -> Result<(), PathError> {
        let token = self.token().await?;
        if self.tokens.accept(&token) {
            info!("secret {} has a new token", self.secret);
            tokio::time::sleep(SPREAD).await;
        }
        let read = self.configurations.get_opt(&self.configuration);
        let Some(configuration) = tokio::time::timeout(TIMEOUT, read).await?? else { return Ok(()) };
        if let Some(attestations) = &self.attestations {
            attestations.learn(&configuration);
        }
        if let Some(patch) = patch(&configuration, &token) {
            let parameters = PatchParams::default();
            let patch = Patch::Strategic(patch);
            let patched = self.configurations.patch(&self.configuration, &parameters, &patch);
            tokio::time::timeout(TIMEOUT, patched).await??;
            info!("webhook configuration {} has the token in its paths", self.configuration);
        }
        Ok(())
    }

    async fn token(&self) -> Result<String, PathError> {
        let mut secret = tokio::time::timeout(TIMEOUT, self.secrets.get(&self.secret)).await??;
        let data = secret.data.get_or_insert_default();
        if let Some(ByteString(token)) = data.get(KEY) {
            let text = String::from_utf8(token.clone()).map_err(|_| PathError::Token)?;
            let usable = text.len() >= MIN_LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
            return if usable { Ok(text) } else { Err(PathError::Token) };
        }
        let token = new_token();
        data.insert(KEY.to_owned(), ByteString(token.clone().into_bytes()));
        // The resourceVersion that was read lets only one replica make the token.
        let parameters = PostParams::default();
        let replaced = self.secrets.replace(&self.secret, &parameters, &secret);
        tokio::time::timeout(TIMEOUT, replaced).await??;
        info!("secret {} has its first token", self.secret);
        Ok(token)
    }
}

/// Returns 256 bits of the thread's generator, which is seeded by the system, as 64 characters.
fn new_token() -> String {
    let (high, low): (u128, u128) = rand::rng().random();
    format!("{high:032x}{low:032x}")
}

/// Returns the patch that puts the token into the paths that lack it. `None` when no path does.
fn patch(configuration: &ValidatingWebhookConfiguration, token: &str) -> Option<Value> {
    let webhooks = configuration.webhooks.iter().flatten();
    let webhooks: Vec<_> = webhooks.filter_map(|webhook| webhook_patch(webhook, token)).collect();
    let version = &configuration.metadata.resource_version;
    (!webhooks.is_empty()).then(|| json!({"metadata": {"resourceVersion": version}, "webhooks": webhooks}))
}

/// Returns the patch of one webhook, which the first word of its name tells: `evict.gateway.evacuation.dev`.
fn webhook_patch(webhook: &ValidatingWebhook, token: &str) -> Option<Value> {
    let word = webhook.name.split('.').next().filter(|word| ["evict", "delete", "warn"].contains(word))?;
    let path = format!("/{word}/{token}");
    let config = &webhook.client_config;
    let changed = match (&config.service, &config.url) {
        (Some(service), _) if service.path.as_ref() != Some(&path) => json!({"service": {"path": path}}),
        (None, Some(url)) => {
            let rest = url.strip_prefix("https://")?;
            let host = rest.split('/').next()?;
            let wanted = format!("https://{host}{path}");
            (*url != wanted).then(|| json!({"url": wanted}))?
        }
        _ => return None,
    };
    Some(json!({"name": webhook.name, "clientConfig": changed}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(config: &Value) -> ValidatingWebhookConfiguration {
        let names = ["evict.gateway.evacuation.dev", "other.example.com"];
        let webhooks = names.map(|name| {
            json!({
                "name": name, "clientConfig": config,
                "sideEffects": "None", "admissionReviewVersions": ["v1"],
            })
        });
        let metadata = json!({"name": "evacuation-gateway", "resourceVersion": "7"});
        serde_json::from_value(json!({"metadata": metadata, "webhooks": webhooks})).unwrap()
    }

    #[test]
    fn paths_without_the_token_are_patched_with_a_precondition_and_others_are_left() {
        let service = |path: &str| json!({"service": {"namespace": "n", "name": "s", "path": path}});
        let url = |path: &str| json!({"url": format!("https://127.0.0.1:8443{path}")});
        let pathless = json!({"service": {"namespace": "n", "name": "s"}});
        for (config, expected) in [
            (pathless, Some(json!({"service": {"path": "/evict/t"}}))),
            (service("/evict/old"), Some(json!({"service": {"path": "/evict/t"}}))),
            (service("/evict/t"), None),
            (url(""), Some(json!({"url": "https://127.0.0.1:8443/evict/t"}))),
            (url("/evict/old"), Some(json!({"url": "https://127.0.0.1:8443/evict/t"}))),
            (url("/evict/t"), None),
        ] {
            let expected = expected.map(|config| {
                let webhook = json!({"name": "evict.gateway.evacuation.dev", "clientConfig": config});
                json!({"metadata": {"resourceVersion": "7"}, "webhooks": [webhook]})
            });
            assert_eq!(patch(&configuration(&config), "t"), expected, "{config}");
        }
    }

    #[test]
    fn a_token_has_256_bits_and_is_not_made_twice() {
        let token = new_token();
        assert_eq!(token.len(), 64);
        assert!(token.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_ne!(token, new_token());
    }
}
