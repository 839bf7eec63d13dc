//! The command line.

use std::{net::SocketAddr, path::PathBuf};

use clap::Parser;
use machinery_logging::LogOptions;

/// The gateway: asks before a pod is evicted or deleted.
#[derive(Clone, Debug, Parser)]
#[command(name = "evacuation-gateway", version)]
pub struct Options {
    /// Check a configuration file and exit.
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
    /// Configuration file; without it only the built-in table counts. Read again every 5 s.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Kubeconfig of the kube-apiserver; without it the pod's own service account is used.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the webhooks, over HTTPS.
    #[arg(long, default_value = "0.0.0.0:8443")]
    pub address: SocketAddr,
    /// Address of metrics and probes, over plain HTTP.
    #[arg(long, default_value = "0.0.0.0:8080")]
    pub metrics_address: SocketAddr,
    /// Serving certificate, PEM. Read again every 5 s.
    #[arg(long, default_value = "/etc/evacuation/tls/tls.crt")]
    pub tls_cert_file: PathBuf,
    /// Key of the serving certificate, PEM.
    #[arg(long, default_value = "/etc/evacuation/tls/tls.key")]
    pub tls_private_key_file: PathBuf,
    /// CA of the kube-apiserver's client certificate, PEM. With it, other clients are rejected.
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// Seconds after SIGTERM in which calls are still answered, each on a connection that then closes. A call
    /// on a connection that closes under it would pass unasked.
    #[arg(long, default_value_t = 10)]
    pub shutdown_delay_seconds: u64,
    /// Namespace of the project's own pods, which are never asked.
    #[arg(long, default_value = "evacuation-system")]
    pub own_namespace: String,
    /// User whose calls always pass; may be repeated. The controller and the gateway itself must be among
    /// them.
    #[arg(long, default_values = [
        "system:serviceaccount:evacuation-system:evacuation-controller",
        "system:serviceaccount:evacuation-system:evacuation-gateway",
    ])]
    pub trusted_user: Vec<String>,
    /// Flags of the log.
    #[command(flatten)]
    pub log: LogOptions,
}
