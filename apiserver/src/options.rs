//! Command-line options.

use std::{net::IpAddr, path::PathBuf};

use clap::{Parser, ValueEnum};
use machinery_logging::LogOptions;

use crate::{AdmissionFlags, AuditOptions, LimitOptions, SettingsOptions};

/// The evacuation API server, which a kube-apiserver aggregates.
#[derive(Clone, Debug, Parser)]
#[command(name = "evacuation-apiserver", version)]
pub struct Options {
    /// Address to listen on.
    #[arg(long, default_value = "0.0.0.0")]
    pub bind_address: IpAddr,
    /// Port to listen on.
    #[arg(long, default_value_t = 6443)]
    pub secure_port: u16,
    /// Serving certificate and its chain, PEM; reloaded when it changes.
    #[arg(long)]
    pub tls_cert_file: PathBuf,
    /// Key of the serving certificate, PEM; reloaded when it changes.
    #[arg(long)]
    pub tls_private_key_file: PathBuf,
    /// Kubeconfig for the kube-apiserver; the pod's own service account by default.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Storage backend.
    #[arg(long, value_enum, default_value_t = Storage::Etcd)]
    pub storage: Storage,
    /// URLs of the etcd members, separated by commas.
    #[arg(
        long,
        value_delimiter = ',',
        required_unless_present = "storage",
        required_if_eq("storage", "etcd")
    )]
    pub etcd_servers: Vec<String>,
    /// Prefix of every key in etcd.
    #[arg(long, default_value = "/registry/evacuation.dev")]
    pub etcd_prefix: String,
    /// Seconds between two compactions of etcd, which drop the history older than that. 0 turns them off, for
    /// an etcd that another client compacts.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub etcd_compaction_interval_seconds: u64,
    /// CA of the etcd members' certificates, PEM. The server reads the three etcd files again every 30 s.
    #[arg(long)]
    pub etcd_cafile: Option<PathBuf>,
    /// Client certificate for etcd, PEM.
    #[arg(long, requires = "etcd_keyfile")]
    pub etcd_certfile: Option<PathBuf>,
    /// Key of the client certificate for etcd, PEM.
    #[arg(long, requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
    /// Folder of the embedded store, for one process at a time.
    #[arg(long, required_if_eq("storage", "embedded"))]
    pub data_dir: Option<PathBuf>,
    /// Limits on what callers can use.
    #[command(flatten)]
    pub limits: LimitOptions,
    /// Flags of the negotiation settings.
    #[command(flatten)]
    pub settings: SettingsOptions,
    /// Flags of admission.
    #[command(flatten)]
    pub admission: AdmissionFlags,
    /// Namespace of the project's own pods.
    #[arg(long, default_value = "evacuation-system")]
    pub own_namespace: String,
    /// Name of the controller's lease in the own namespace. While no controller renews it, each reply has a
    /// warning. Empty for a controller without a lease.
    #[arg(long, value_name = "NAME", default_value = "evacuation-controller")]
    pub controller_lease: String,
    /// Seconds that the server still serves after SIGTERM, while /readyz fails. In this time Kubernetes stops
    /// sending requests to it.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    pub shutdown_delay_seconds: u64,
    /// Flags of the audit log.
    #[command(flatten)]
    pub audit: AuditOptions,
    /// Configuration of traces: a file with a TracingConfiguration of apiserver.config.k8s.io/v1. Without it,
    /// nothing is traced.
    #[arg(long, value_name = "FILE")]
    pub tracing_config_file: Option<PathBuf>,
    /// Flags of the log.
    #[command(flatten)]
    pub log: LogOptions,
}

/// Storage backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Storage {
    /// An etcd cluster, shared by every replica.
    Etcd,
    /// A file of this process, for one replica.
    Embedded,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, clap::Error> {
        let fixed = ["evacuation-apiserver", "--tls-cert-file=c", "--tls-private-key-file=k"];
        Options::try_parse_from(fixed.iter().chain(arguments))
    }

    #[test]
    fn the_options_say_what_is_missing() {
        for (arguments, missing) in [
            (vec![], "--etcd-servers"),
            (vec!["--storage=embedded"], "--data-dir"),
            (vec!["--etcd-servers=http://a", "--etcd-certfile=c"], "--etcd-keyfile"),
        ] {
            let error = parse(&arguments).expect_err("incomplete").to_string();
            assert!(error.contains(missing), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn the_help_describes_the_program_and_the_limits() {
        use clap::CommandFactory;
        let help = Options::command().render_long_help().to_string();
        assert!(help.starts_with("The evacuation API server"), "{help}");
        assert!(help.contains("--priority-user"), "{help}");
    }

    #[test]
    fn etcd_members_are_separated_by_commas() {
        let options = parse(&["--etcd-servers=https://a:2379,https://b:2379"]).expect("complete");
        assert_eq!(options.etcd_servers, ["https://a:2379", "https://b:2379"]);
        assert_eq!(options.etcd_prefix, "/registry/evacuation.dev");
    }
}
