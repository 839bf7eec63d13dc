//! Users of the kitchen, their rights, and the namespaces.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use http::HeaderMap;
use machinery_auth::{Attributes, AuthError, Authenticator, Authorizer, UserInfo, Verdict};
use machinery_server::{ApiError, NamespaceState, Namespaces};
use rustls::pki_types::CertificateDer;

/// Believes the header `x-user`, unless it is absent; then the number of certificates is the name. The token
/// `unanswered` is never looked up to the end, and `slow`, which is the cook's, takes 20 ms.
pub(crate) struct TestAuthenticator;

#[async_trait]
impl Authenticator for TestAuthenticator {
    async fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: &[CertificateDer<'static>],
    ) -> Result<Option<UserInfo>, AuthError> {
        if headers.get("authorization").is_some_and(|value| value == "Bearer unanswered") {
            return std::future::pending().await;
        }
        if headers.get("authorization").is_some_and(|value| value == "Bearer slow") {
            tokio::time::sleep(Duration::from_millis(20)).await;
            return Ok(Some(UserInfo { name: "cook".to_owned(), ..UserInfo::default() }));
        }
        let user = headers.get("x-user").and_then(|value| value.to_str().ok());
        match user {
            Some("impostor") => {
                Err(AuthError::InvalidCredentials { credential: "header", reason: "a lie".to_owned() })
            }
            Some("unknowable") => Err(AuthError::Unavailable { action: "the look-up", source: outage() }),
            Some(name) => Ok(Some(UserInfo { name: name.to_owned(), ..UserInfo::default() })),
            None if peer.is_empty() => Ok(None),
            None => {
                Ok(Some(UserInfo { name: format!("{} certificates", peer.len()), ..UserInfo::default() }))
            }
        }
    }
}

fn outage() -> std::sync::Arc<dyn std::error::Error + Send + Sync> {
    std::sync::Arc::new(std::io::Error::other("down"))
}

/// Lets everybody do everything, but `thief` nothing, `reader` only read, `patcher` not create, and `cook`
/// nothing that is unsafe.
/// Never decides about the service account `undecided`.
pub(crate) struct TestAuthorizer;

#[async_trait]
impl Authorizer for TestAuthorizer {
    async fn authorize(&self, attributes: &Attributes) -> Result<Verdict, AuthError> {
        let reads = matches!(attributes.verb.as_str(), "get" | "list" | "watch");
        match attributes.user.name.as_str() {
            "system:serviceaccount:n:undecided" => std::future::pending().await,
            "thief" => Ok(Verdict::Denied { reason: String::new() }),
            "cook" if attributes.verb.starts_with("unsafe-") => {
                Ok(Verdict::Denied { reason: "cooks are careful".to_owned() })
            }
            "patcher" if attributes.verb == "create" => Ok(Verdict::Denied { reason: String::new() }),
            "reader" if !reads => Ok(Verdict::Denied { reason: "readers read".to_owned() }),
            _ => Ok(Verdict::Allowed),
        }
    }
}

/// Namespaces as a test wants them; those that it did not speak of are active.
#[derive(Default)]
pub(crate) struct TestNamespaces {
    states: Mutex<HashMap<String, NamespaceState>>,
    not_started: AtomicBool,
}

impl TestNamespaces {
    pub(crate) fn set(&self, name: &str, state: NamespaceState) {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), state);
    }

    /// Sets whether the watch of the namespaces has started, as it has by default.
    pub(crate) fn set_started(&self, started: bool) {
        self.not_started.store(!started, Ordering::Relaxed);
    }
}

#[async_trait]
impl Namespaces for TestNamespaces {
    async fn state(&self, name: &str) -> Result<NamespaceState, ApiError> {
        let known = self.states.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied();
        Ok(known.unwrap_or(NamespaceState::Active))
    }

    fn has_started(&self) -> bool {
        !self.not_started.load(Ordering::Relaxed)
    }
}
