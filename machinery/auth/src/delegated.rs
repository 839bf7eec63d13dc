//! Authentication as kube-apiserver publishes it for aggregated API servers.

use std::{pin::pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{Stream, StreamExt};
use http::HeaderMap;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, watcher},
};
use rustls::pki_types::CertificateDer;
use tokio_util::sync::CancellationToken;

use crate::{
    Anonymous, AuthError, AuthenticatedGroup, AuthenticationConfig, Authenticator, AuthenticatorUnion,
    ClientCertificateAuthenticator, ConfigError, CurrentConfig, RequestHeaderAuthenticator,
    TokenAuthenticator, UserInfo,
    config::{NAME, NAMESPACE},
    error::with_causes,
};

/// Maximum time of the first load.
const FIRST_LOAD: Duration = Duration::from_secs(30);
/// Pause before the kube-apiserver is tried again. Each try waits by itself, too.
const RETRY: Duration = Duration::from_secs(1);

/// Reason that the authentication settings could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The ConfigMap could not be read within 30 s. It takes the role
    /// `extension-apiserver-authentication-reader` in `kube-system`.
    #[error(
        "configmap {NAMESPACE}/{NAME} could not be read (role extension-apiserver-authentication-reader)"
    )]
    Unreadable(#[source] Option<Box<watcher::Error>>),
    /// The ConfigMap can be read, and is unusable.
    #[error("the authentication of aggregated API servers is not configured properly")]
    Unusable(#[source] ConfigError),
    /// The server is shutting down.
    #[error("the server shut down before the authentication's configuration was read")]
    ShutDown,
}

/// Authenticates callers as every aggregated API server does: by the headers of the front proxy, else by
/// client certificate, else by bearer token. A caller without any of them is `system:anonymous`.
///
/// # Guarantees
///
/// The CAs and header names are those of the ConfigMap `kube-system/extension-apiserver-authentication`,
/// which is watched. A change applies a moment later, without a restart and to open connections too. A change
/// that cannot be used, and the deletion of the ConfigMap, keep the previous settings. The anonymous user is
/// authenticated; the [`Authorizer`](crate::Authorizer) decides what it may do.
pub struct DelegatedAuthentication {
    authenticator: Anonymous<AuthenticatedGroup<AuthenticatorUnion>>,
}

impl DelegatedAuthentication {
    /// Loads the configuration and follows it until `shutdown`.
    ///
    /// # Errors
    ///
    /// The settings could not be loaded within 30 s.
    pub async fn start(client: Client, shutdown: CancellationToken) -> Result<Arc<Self>, StartError> {
        let config_maps = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
        let mut changes = watcher::watch_object(config_maps, NAME).default_backoff().boxed();
        let first = shutdown.run_until_cancelled(first_load(&mut changes));
        let current = CurrentConfig::new(first.await.ok_or(StartError::ShutDown)??);
        let authentication = Self::new(client, &current);
        tokio::spawn(shutdown.run_until_cancelled_owned(follow(changes, current)));
        Ok(Arc::new(authentication))
    }

    /// Loads the configuration as [`DelegatedAuthentication::start`] does, and tries again without limit. The
    /// kube-apiserver can start later than this server. `None` when the server shuts down before.
    pub async fn start_when_reachable(client: &Client, shutdown: &CancellationToken) -> Option<Arc<Self>> {
        loop {
            match Self::start(client.clone(), shutdown.child_token()).await {
                Ok(authentication) => return Some(authentication),
                Err(StartError::ShutDown) => return None,
                Err(error) => {
                    tracing::warn!(error = with_causes(&error), "waiting for the kube-apiserver");
                    shutdown.run_until_cancelled(tokio::time::sleep(RETRY)).await?;
                }
            }
        }
    }

    /// Authenticates by settings that the caller keeps up to date, and tokens by TokenReviews with `client`.
    pub fn new(client: Client, config: &Arc<CurrentConfig>) -> Self {
        let authenticators = AuthenticatorUnion::new(vec![
            Box::new(RequestHeaderAuthenticator::new(Arc::clone(config))),
            Box::new(ClientCertificateAuthenticator::new(Arc::clone(config))),
            Box::new(TokenAuthenticator::new(client)),
        ]);
        Self { authenticator: Anonymous::new(AuthenticatedGroup::new(authenticators)) }
    }
}

#[async_trait]
impl Authenticator for DelegatedAuthentication {
    async fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: &[CertificateDer<'static>],
    ) -> Result<Option<UserInfo>, AuthError> {
        self.authenticator.authenticate(headers, peer).await
    }
}

type Change = watcher::Result<Option<ConfigMap>>;

/// Waits for usable settings. A problem may be fixed within the time: kube-apiserver writes the ConfigMap
/// when it starts, perhaps at the same time as this server.
async fn first_load(
    changes: &mut (impl Stream<Item = Change> + Unpin),
) -> Result<AuthenticationConfig, StartError> {
    let mut failure = StartError::Unreadable(None);
    let load = async {
        while let Some(change) = changes.next().await {
            failure = match change {
                Ok(Some(config_map)) => match read(&config_map) {
                    Ok(config) => return Some(config),
                    Err(error) => StartError::Unusable(error),
                },
                Ok(None) => StartError::Unreadable(None),
                Err(error) => StartError::Unreadable(Some(Box::new(error))),
            };
            tracing::warn!(
                error = with_causes(&failure),
                "configmap {NAMESPACE}/{NAME}: not usable yet, waiting"
            );
        }
        None
    };
    let loaded = tokio::time::timeout(FIRST_LOAD, pin!(load)).await;
    loaded.ok().flatten().ok_or(failure)
}

async fn follow(mut changes: impl Stream<Item = Change> + Unpin, current: Arc<CurrentConfig>) {
    while let Some(change) = changes.next().await {
        match change {
            Ok(Some(config_map)) => match read(&config_map) {
                Ok(config) => {
                    current.replace(config);
                    tracing::info!("configmap {NAMESPACE}/{NAME}: reloaded");
                }
                Err(error) => tracing::error!(
                    error = with_causes(&error),
                    "configmap {NAMESPACE}/{NAME}: the change cannot be used, keeping the previous settings"
                ),
            },
            Ok(None) => {
                tracing::warn!("configmap {NAMESPACE}/{NAME}: deleted, keeping the previous settings");
            }
            Err(error) => {
                tracing::warn!(
                    error = with_causes(&error),
                    "configmap {NAMESPACE}/{NAME}: the watch failed and is retried"
                );
            }
        }
    }
}

fn read(config_map: &ConfigMap) -> Result<AuthenticationConfig, ConfigError> {
    config_map
        .data
        .as_ref()
        .map_or_else(|| Ok(AuthenticationConfig::default()), AuthenticationConfig::from_config_map)
}
