//! Failures of the server to start or to continue.

use std::{error::Error, net::SocketAddr, path::PathBuf};

use machinery_audit::{LogError, PolicyError};
use machinery_auth::ServingCertificateError;
use machinery_client::ConnectError;
use machinery_server::BuildError;
use machinery_storage::EtcdOptionsError;
use machinery_tracing::{ConfigError, StartError};

use crate::SettingsError;

/// Failure of the server to start or to continue.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no kubeconfig, or no service account to use instead.
    #[error("cannot reach the kube-apiserver")]
    Kubeconfig(#[source] ConnectError),
    /// A file that an option names cannot be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The etcd options are invalid.
    #[error("cannot use etcd with these options")]
    Etcd(#[source] EtcdOptionsError),
    /// The embedded store cannot be opened.
    #[error("cannot open the store in {}", folder.display())]
    DataDir {
        /// The folder.
        folder: PathBuf,
        /// The store's error.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The audit policy cannot be used.
    #[error("cannot use the audit policy")]
    AuditPolicy(#[source] PolicyError),
    /// The audit log cannot be opened.
    #[error("cannot start the audit log")]
    AuditLog(#[source] LogError),
    /// The tracing configuration cannot be used.
    #[error("cannot use the tracing configuration")]
    TracingConfig(#[source] ConfigError),
    /// Traces cannot be exported to the collector.
    #[error("cannot start the traces")]
    Traces(#[source] StartError),
    /// The negotiation settings cannot be used.
    #[error("cannot use the negotiation settings")]
    Settings(#[source] SettingsError),
    /// The serving certificate or its key cannot be used.
    #[error("cannot serve TLS")]
    Certificate(#[source] ServingCertificateError),
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    /// The server cannot be assembled.
    #[error("cannot assemble the server")]
    Build(#[source] BuildError),
    /// The address is in use or not local, or serving failed.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
}
