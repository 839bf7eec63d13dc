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
    /// Address of the webhook that warns, over HTTPS. It has workers of its own, so that warnings hold up no
    /// eviction.
    #[arg(long, default_value = "0.0.0.0:8444")]
    pub warnings_address: SocketAddr,
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
    /// Secret in the own namespace with the token of the webhooks' paths. The gateway makes the token.
    #[arg(long, value_name = "NAME", default_value = "evacuation-gateway-path")]
    pub path_secret: String,
    /// ValidatingWebhookConfiguration whose paths get the token.
    #[arg(long, value_name = "NAME", default_value = "evacuation-gateway")]
    pub webhook_configuration: String,
    /// Reject each call without a token that the kube-apiserver issued for the called webhook (KEP-6060).
    /// Only for a kube-apiserver that presents one: without it every call is rejected, and passes unasked.
    #[arg(long)]
    pub require_attestation: bool,
    /// Seconds after SIGTERM in which calls are still answered, each on a connection that then closes. A call
    /// on a connection that closes under it would pass unasked.
    #[arg(long, default_value_t = 10)]
    pub shutdown_delay_seconds: u64,
    /// Namespace of the project's own pods, which are never asked.
    #[arg(long, default_value = "evacuation-system")]
    pub own_namespace: String,
    /// Name of the controller's lease in the own namespace. While it grows old, calls pass that nobody would
    /// answer. Empty for a controller without a lease.
    #[arg(long, value_name = "NAME", default_value = "evacuation-controller")]
    pub controller_lease: String,
    /// Seconds for which the answer of an app holds its calls from the start of an outage: the evacuation API
    /// does not answer, or no controller leads. The default is longer than the loss of a node with the
    /// store's volume: 5 minutes until its pods are evicted, 6 until the volume is detached, and a start.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    pub hold_answers_seconds: u32,
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
