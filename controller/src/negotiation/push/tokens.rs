//! Tokens that the controller shows to a Service, so that the app can check who asks.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::{
    authentication::v1::{SelfSubjectReview, TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, api::PostParams};
use tokio::time::Instant;

use crate::cluster::{CallError, ObjectKey, call};

/// For how long a token is valid: the shortest that Kubernetes gives.
const LIFETIME_SECONDS: i64 = 600;
/// For how long a token is shown.
const SHOWN: Duration = Duration::from_mins(5);
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Reason for which there is no token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// The controller runs as something else than a service account.
    #[error("the controller is {0:?} and no service account, so it has no token to show")]
    NoServiceAccount(String),
    /// The API made none.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The API gave an empty reply.
    #[error("the token of service account {0} is empty")]
    Empty(ObjectKey),
}

/// The tokens of the controller's own service account, by audience.
pub(super) struct Tokens {
    client: Client,
    own: Mutex<Option<ObjectKey>>,
    known: Mutex<HashMap<String, (String, Instant)>>,
}

impl Tokens {
    pub(super) fn new(client: Client) -> Self {
        Self { client, own: Mutex::default(), known: Mutex::default() }
    }

    /// A token that is valid for that audience, and for no other, for some minutes more.
    pub(super) async fn of_audience(&self, audience: &str) -> Result<String, TokenError> {
        let now = Instant::now();
        if let Some((token, until)) = lock(&self.known).get(audience)
            && now < *until
        {
            return Ok(token.clone());
        }
        let own = self.own().await?;
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &own.namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(vec![audience.to_owned()]),
                expiration_seconds: Some(LIFETIME_SECONDS),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let parameters = PostParams::default();
        let made = call(
            format!("request a token of service account {own} for {audience}"),
            api.create_token_request(&own.name, &parameters, &request),
        )
        .await?;
        let token = made.status.and_then(|status| status.token).unwrap_or_default();
        if token.is_empty() {
            return Err(TokenError::Empty(own));
        }
        let mut known = lock(&self.known);
        known.retain(|_, (_, until)| now < *until);
        known.insert(audience.to_owned(), (token.clone(), now + SHOWN));
        Ok(token)
    }

    /// The controller's own service account, as the API knows it.
    async fn own(&self) -> Result<ObjectKey, TokenError> {
        if let Some(own) = lock(&self.own).clone() {
            return Ok(own);
        }
        let api: Api<SelfSubjectReview> = Api::all(self.client.clone());
        let parameters = PostParams::default();
        let review = SelfSubjectReview::default();
        let review = call("ask who the controller is", api.create(&parameters, &review)).await?;
        let user = review
            .status
            .and_then(|status| status.user_info)
            .and_then(|user| user.username)
            .unwrap_or_default();
        let own = user
            .strip_prefix(SERVICE_ACCOUNT_PREFIX)
            .and_then(|rest| rest.split_once(':'))
            .map(|(namespace, name)| ObjectKey::new(namespace, name))
            .ok_or_else(|| TokenError::NoServiceAccount(user.clone()))?;
        *lock(&self.own) = Some(own.clone());
        Ok(own)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
