//! Connection settings of etcd.

use std::time::Duration;

use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};

/// Endpoints of etcd, and the place of the data in it.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// Client URLs of the members, such as `https://etcd-0.etcd:2379`; at least one. The store calls all of
    /// them in turn, and skips one that is down.
    pub endpoints: Vec<String>,
    /// Prefix of every key in etcd, such as `/registry/example.dev`. Keys in the API do not contain it.
    pub key_prefix: String,
    /// Certificates; absent for plain HTTP.
    pub tls: Option<EtcdTls>,
    /// Timeout of a call. 5 s by default.
    pub request_timeout: Duration,
    /// Timeout of opening a connection. 2 s by default.
    pub connect_timeout: Duration,
    /// Number of connections to each endpoint for calls. Watches have one of their own. 2 by default.
    pub connections_per_endpoint: usize,
}

impl EtcdOptions {
    /// Plain connections to these endpoints, and the defaults.
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            key_prefix: String::new(),
            tls: None,
            request_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(2),
            connections_per_endpoint: 2,
        }
    }
}

/// The certificates of a TLS connection to etcd, in PEM.
#[derive(Clone)]
pub struct EtcdTls {
    /// Certificate authorities that may sign the certificates of etcd.
    pub ca: Vec<u8>,
    /// The client's certificate chain and its private key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for EtcdTls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("EtcdTls").field("identity", &self.identity.is_some()).finish_non_exhaustive()
    }
}

/// The options make no sense. Whether etcd is there is another matter: see [`crate::Store::ready`].
#[derive(Debug, thiserror::Error)]
pub enum EtcdOptionsError {
    /// There is no endpoint.
    #[error("no etcd endpoint is given")]
    NoEndpoint,
    /// An endpoint is not a URL, or does not go with the certificates.
    #[error("the etcd endpoint {endpoint} is unusable")]
    Endpoint {
        /// The endpoint.
        endpoint: String,
        /// Description of the problem.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Pings on a connection with open calls or watches, so that one that died silently is noticed within
/// `KEEP_ALIVE_INTERVAL` plus `KEEP_ALIVE_TIMEOUT`. etcd tolerates one ping in 5 s
/// (`--grpc-keepalive-min-time`), and none on an idle connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(6);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(3);

impl EtcdOptions {
    pub(super) fn connect_options(&self) -> ConnectOptions {
        let options = ConnectOptions::new()
            .with_connect_timeout(self.connect_timeout)
            .with_keep_alive(KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT)
            .with_keep_alive_while_idle(false)
            .with_tcp_keepalive(KEEP_ALIVE_INTERVAL)
            // A member that is cut off from the others says so instead of letting calls and watches hang.
            .with_require_leader(true);
        match &self.tls {
            None => options,
            Some(EtcdTls { ca, identity }) => {
                let tls = TlsOptions::new().ca_certificate(Certificate::from_pem(ca));
                options.with_tls(match identity {
                    None => tls,
                    Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
                })
            }
        }
    }
}
