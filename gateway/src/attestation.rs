//! A second proof of a caller: a token that the kube-apiserver issued for one of the gateway's webhooks.
//!
//! Source of the rules: KEP-6060. Any service account can have a token for any audience, so the audience
//! alone proves nothing. Only a holder of the verb `attest` gets one with the attestation, and only the
//! kube-apiserver has it for all API groups.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{PoisonError, RwLock},
    time::Duration,
};

use k8s_openapi::api::admissionregistration::v1::{ValidatingWebhookConfiguration, WebhookClientConfig};
use machinery_auth::{AuthError, TokenAuthenticator, UserInfo, bearer_token};

/// Maximum time of a review. The decision has what is left of the time for an answer.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(300);
/// Key of the configuration to which a token is bound, in the user's extra.
const CONFIGURATION: &str = "authentication.kubernetes.io/validatingwebhookconfiguration-name";
/// Key of the API groups about which the bearer may ask. Keys are lower case.
const API_GROUPS: &str = "attestation.authentication.kubernetes.io/admissionreviewapigroups";
/// API groups of the kube-apiserver.
const ALL: &str = "*";

/// Reason for which a call is rejected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unattested {
    #[error("the call has no bearer token")]
    Missing,
    #[error("the token is not valid for this webhook")]
    Invalid(#[source] AuthError),
    #[error(
        "the token is bound to no webhook of the configuration {configuration}, or is not for all API groups"
    )]
    Foreign { configuration: String },
    #[error("the token was not reviewed")]
    Unreviewed(#[source] AuthError),
    #[error("the token was not reviewed in time, or the webhook configuration is not known yet")]
    Late,
}

impl Unattested {
    /// Returns the HTTP status code of the rejection.
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Missing | Self::Invalid(_) => 401,
            Self::Foreign { .. } => 403,
            Self::Unreviewed(_) | Self::Late => 503,
        }
    }
}

/// Judge of the tokens of calls, each reviewed by the kube-apiserver and then accepted for 10 s.
pub(crate) struct Attestations {
    reviews: TokenAuthenticator,
    configuration: String,
    /// URL of each webhook without its path, by the first word of the path.
    origins: RwLock<BTreeMap<String, String>>,
}

impl fmt::Debug for Attestations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Attestations")
            .field("configuration", &self.configuration)
            .finish_non_exhaustive()
    }
}

impl Attestations {
    /// Returns a judge that reviews tokens with this client.
    pub(crate) fn new(client: kube::Client, configuration: &str) -> Self {
        let (reviews, origins) = (TokenAuthenticator::new(client), RwLock::default());
        Self { reviews, configuration: configuration.to_owned(), origins }
    }

    /// Takes in the addresses of the webhooks, from which the kube-apiserver derives the audiences.
    pub(crate) fn learn(&self, configuration: &ValidatingWebhookConfiguration) {
        let webhooks = configuration.webhooks.iter().flatten();
        let named = webhooks.filter_map(|webhook| {
            let word = webhook.name.split('.').next()?;
            Some((word.to_owned(), origin(&webhook.client_config)?))
        });
        *self.origins.write().unwrap_or_else(PoisonError::into_inner) = named.collect();
    }

    /// Checks the `Authorization` header of a call of that path.
    pub(crate) async fn check(&self, path: &str, authorization: Option<&str>) -> Result<(), Unattested> {
        let token = authorization.and_then(bearer_token).ok_or(Unattested::Missing)?;
        let audiences = self.audiences(path).ok_or(Unattested::Late)?;
        let reviewed = tokio::time::timeout(TIMEOUT, self.reviews.authenticate_for(token, &audiences)).await;
        match reviewed {
            Ok(Ok(user)) if attests(&user, &self.configuration) => Ok(()),
            Ok(Ok(_)) => Err(Unattested::Foreign { configuration: self.configuration.clone() }),
            Ok(Err(error)) if error.is_callers_fault() => Err(Unattested::Invalid(error)),
            Ok(Err(error)) => Err(Unattested::Unreviewed(error)),
            Err(_) => Err(Unattested::Late),
        }
    }

    /// Returns the audiences of tokens for a path: the webhook's whole URL, and the URL without a path, as in
    /// the token file of a kube-apiserver, which is for all webhooks of a host.
    fn audiences(&self, path: &str) -> Option<[String; 2]> {
        let word = path.split('/').nth(1)?;
        let origins = self.origins.read().unwrap_or_else(PoisonError::into_inner);
        let origin = origins.get(word)?;
        Some([format!("{origin}{path}"), format!("{origin}/")])
    }
}

fn attests(user: &UserInfo, configuration: &str) -> bool {
    user.extra_value(CONFIGURATION) == Some(configuration) && user.extra_value(API_GROUPS) == Some(ALL)
}

/// Returns the URL of a webhook without its path, as the kube-apiserver writes it in an audience.
fn origin(config: &WebhookClientConfig) -> Option<String> {
    match (&config.service, &config.url) {
        (Some(service), _) => {
            let port = service.port.unwrap_or(443);
            Some(format!("https://{}.{}.svc:{port}", service.name, service.namespace))
        }
        (None, Some(url)) => Some(format!("https://{}", url.strip_prefix("https://")?.split('/').next()?)),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests;
