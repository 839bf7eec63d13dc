//! Callers with a client certificate of the cluster.

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use rustls::pki_types::{CertificateDer, UnixTime};

use crate::{AuthError, Authenticator, CurrentConfig, UserInfo, subject};

const CREDENTIAL: &str = "client certificate";

/// Authenticates callers by a client certificate that the cluster's client CA signed: the common name is the
/// user, the organisations are the groups.
pub struct ClientCertificateAuthenticator {
    config: Arc<CurrentConfig>,
}

impl ClientCertificateAuthenticator {
    /// Applies to each request the settings in force when it arrives.
    pub fn new(config: Arc<CurrentConfig>) -> Self {
        Self { config }
    }
}

#[async_trait]
impl Authenticator for ClientCertificateAuthenticator {
    async fn authenticate(
        &self,
        _headers: &HeaderMap,
        peer: &[CertificateDer<'static>],
    ) -> Result<Option<UserInfo>, AuthError> {
        let config = self.config.load();
        let (Some(ca), Some(certificate)) = (&config.client_ca, peer.first()) else {
            return Ok(None);
        };
        ca.verify(peer, UnixTime::now())
            .map_err(|error| AuthError::invalid(CREDENTIAL, error.to_string()))?;
        subject::user(certificate).map_err(|error| AuthError::invalid(CREDENTIAL, error.to_string()))
    }
}
