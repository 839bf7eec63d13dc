//! Command-line options.

use std::{net::SocketAddr, path::PathBuf};

use clap::Parser;
use machinery_logging::LogOptions;

/// The fleet API server, which a kube-apiserver aggregates.
#[derive(Clone, Debug, Parser)]
#[command(name = "machinery-example", version)]
pub struct Options {
    /// Address to listen on.
    #[arg(long, default_value = "0.0.0.0:6443")]
    pub address: SocketAddr,
    /// Serving certificate and its chain, PEM; reloaded when it changes.
    #[arg(long)]
    pub tls_cert_file: PathBuf,
    /// Key of the serving certificate, PEM; reloaded when it changes.
    #[arg(long)]
    pub tls_private_key_file: PathBuf,
    /// Kubeconfig for the kube-apiserver; the pod's own service account by default.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// URLs of the etcd members, separated by commas. Without them, objects are in `--data-file`.
    #[arg(long, value_delimiter = ',', required_unless_present = "data_file")]
    pub etcd_servers: Vec<String>,
    /// File of the embedded store, for one process at a time.
    #[arg(long, conflicts_with = "etcd_servers")]
    pub data_file: Option<PathBuf>,
    /// Rewrite the depots that are stored in another version than new ones, and end.
    #[arg(long)]
    pub rewrite: bool,
    /// Flags of the log.
    #[command(flatten)]
    pub log: LogOptions,
}
