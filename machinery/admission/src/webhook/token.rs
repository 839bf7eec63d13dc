//! Tokens that prove this server to the webhooks that it calls. Source of the rules: KEP-6060.

use std::{
    collections::BTreeMap,
    fmt,
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, api::PostParams};
use moka::{Expiry, future::Cache};
use reqwest::header::HeaderValue;

use super::{
    call::HookKind,
    hook::{Address, Hook},
};
use crate::metrics::AdmissionMetrics;

/// Lifetime of a token in seconds. kube-apiserver issues neither shorter nor longer ones for webhooks.
const LIFETIME: i64 = 600;
/// Maximum number of tokens that are kept: one for each address of a configuration and API group.
const MAX_TOKENS: u64 = 1000;
/// Key of the API group for which a token counts.
const API_GROUPS: &str = "admissionReviewAPIGroups";

/// Service account in whose name tokens are issued.
///
/// RBAC: the server needs `create` on `serviceaccounts/token` for it. The account needs the verb `attest` on
/// `admissionReviewAPIGroups` of `authentication.k8s.io`, for the name of each API group of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenAccount {
    /// Namespace of the account.
    pub namespace: String,
    /// Name of the account.
    pub name: String,
}

impl fmt::Display for TokenAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for TokenAccount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(format!("{text:?} is not NAMESPACE/NAME")),
        }
    }
}

/// A webhook for which there is no token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("no token of service account {account}: {why}")]
    Refused { account: TokenAccount, why: String },
    #[error("the token of service account {account} is empty or no header value")]
    Unusable { account: TokenAccount },
}

/// Extent in which a token counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Scope {
    kind: HookKind,
    configuration: String,
    uid: String,
    audience: String,
    group: String,
}

#[derive(Clone)]
struct Token {
    authorization: HeaderValue,
    lifetime: Duration,
}

/// Keeps a token for two thirds of its lifetime.
struct UntilRenewal;

impl Expiry<Scope, Token> for UntilRenewal {
    fn expire_after_create(&self, _: &Scope, token: &Token, _: Instant) -> Option<Duration> {
        Some(token.lifetime * 2 / 3)
    }
}

/// Tokens for webhooks.
///
/// # Guarantees
///
/// A token names one configuration, one address and one API group, so that no webhook can present it to
/// another. It is requested once for concurrent calls, and again after two thirds of its lifetime. A failed
/// request is not remembered.
#[derive(Clone)]
pub(crate) struct Tokens {
    accounts: Api<ServiceAccount>,
    account: TokenAccount,
    known: Cache<Scope, Token>,
    metrics: AdmissionMetrics,
}

impl Tokens {
    pub(crate) fn new(client: Client, account: TokenAccount, metrics: AdmissionMetrics) -> Self {
        Self {
            accounts: Api::namespaced(client, &account.namespace),
            account,
            known: Cache::builder().max_capacity(MAX_TOKENS).expire_after(UntilRenewal).build(),
            metrics,
        }
    }

    /// Returns the value of the `Authorization` header for the review of an object of that group. `None` when
    /// the webhook has no address.
    pub(crate) async fn authorization(
        &self,
        kind: HookKind,
        hook: &Hook,
        group: &str,
    ) -> Result<Option<HeaderValue>, Arc<TokenError>> {
        let Some(scope) = scope(kind, hook, group) else { return Ok(None) };
        let token = self.known.try_get_with_by_ref(&scope, self.request(&scope)).await?;
        Ok(Some(token.authorization))
    }

    /// Drops a token that the webhook rejected, so that the next call requests another.
    pub(crate) async fn forget(&self, kind: HookKind, hook: &Hook, group: &str) {
        if let Some(scope) = scope(kind, hook, group) {
            self.known.invalidate(&scope).await;
        }
    }

    async fn request(&self, scope: &Scope) -> Result<Token, TokenError> {
        let account = &self.account;
        let request = TokenRequest { spec: Some(spec(scope)), ..TokenRequest::default() };
        let issued =
            self.accounts.create_token_request(&account.name, &PostParams::default(), &request).await;
        let code = match &issued {
            Ok(_) => 201,
            Err(kube::Error::Api(status)) => status.code,
            Err(_) => 0,
        };
        self.metrics.observe_token_request(code);
        let issued = issued
            .map_err(|error| TokenError::Refused { account: account.clone(), why: error.to_string() })?;
        let unusable = || TokenError::Unusable { account: account.clone() };
        let token = issued.status.and_then(|status| status.token).filter(|token| !token.is_empty());
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.ok_or_else(unusable)?))
            .map_err(|_| unusable())?;
        authorization.set_sensitive(true);
        let seconds = issued.spec.and_then(|spec| spec.expiration_seconds).unwrap_or(LIFETIME);
        Ok(Token { authorization, lifetime: Duration::from_secs(u64::try_from(seconds).unwrap_or_default()) })
    }
}

fn scope(kind: HookKind, hook: &Hook, group: &str) -> Option<Scope> {
    Some(Scope {
        kind,
        configuration: hook.configuration.clone(),
        uid: hook.configuration_uid.clone(),
        audience: audience(&hook.client.address)?,
        group: group.to_owned(),
    })
}

fn spec(scope: &Scope) -> TokenRequestSpec {
    let kind = match scope.kind {
        HookKind::Mutating => "MutatingWebhookConfiguration",
        HookKind::Validating => "ValidatingWebhookConfiguration",
    };
    TokenRequestSpec {
        attestations: Some(BTreeMap::from([(API_GROUPS.to_owned(), vec![scope.group.clone()])])),
        audiences: Some(vec![scope.audience.clone()]),
        bound_object_ref: Some(BoundObjectReference {
            api_version: Some("admissionregistration.k8s.io/v1".to_owned()),
            kind: Some(kind.to_owned()),
            name: Some(scope.configuration.clone()),
            uid: Some(scope.uid.clone()),
        }),
        expiration_seconds: Some(LIFETIME),
    }
}

/// Returns the audience that kube-apiserver derives from a `clientConfig`: its URL, or the URL of its Service
/// with the port and the path.
fn audience(address: &Address) -> Option<String> {
    match address {
        Address::Url(url) => Some(url.clone()),
        Address::Service { namespace, name, port, path } => {
            let slash = if path.starts_with('/') { "" } else { "/" };
            Some(format!("https://{name}.{namespace}.svc:{port}{slash}{path}"))
        }
        Address::Unclear => None,
    }
}

#[cfg(test)]
mod tests;
