//! The command line.

use std::{net::SocketAddr, path::PathBuf};

use clap::{ArgAction, Parser};
use ipnet::IpNet;
use machinery_logging::LogOptions;

use super::FeatureSet;
use crate::{bridges::BridgeOptions, eviction_request::EvictionRequestOptions, refresh::RefreshOptions};

/// The evacuation controller: asks responders and evicts within budgets.
#[derive(Clone, Debug, Parser)]
#[command(name = "evacuation-controller", version)]
pub struct Options {
    /// Kubeconfig of the kube-apiserver; without it the pod's own service account is used.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Features of this process. The built-in responders need rights that nothing else does, so they run as a
    /// process of their own.
    #[arg(long, value_enum, default_value = "controller")]
    pub feature_set: FeatureSet,
    /// Act only while holding a lease; without a lease only one replica may run, and the gateway needs an
    /// empty `--controller-lease`.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub leader_elect: bool,
    /// Namespace of the lease.
    #[arg(long, default_value = "evacuation-system")]
    pub lease_namespace: String,
    /// Name of the lease; by default `evacuation-controller`, or `evacuation-built-in-responders`.
    #[arg(long)]
    pub lease_name: Option<String>,
    /// Address of metrics and probes, over plain HTTP.
    #[arg(long, default_value = "0.0.0.0:8080")]
    pub metrics_address: SocketAddr,
    /// Range of loopback or link-local addresses in which apps and Services are asked; may be repeated.
    #[arg(long)]
    pub push_allow_cidr: Vec<IpNet>,
    /// Maximum number of questions that are posted to one endpoint at once.
    #[arg(long, default_value_t = 4)]
    pub push_per_endpoint: usize,
    /// Maximum number of Evacuations that are worked on at once.
    #[arg(long, default_value_t = 16)]
    pub workers: usize,
    /// Name the pods that were deleted although their responders were never asked, in an Event and a metric.
    /// For clusters with the gateway: without it, each rollout deletes such pods.
    #[arg(long)]
    pub report_unasked: bool,
    /// Flags for Kubernetes' own EvictionRequests.
    #[command(flatten)]
    pub eviction_requests: EvictionRequestOptions,
    /// Flags for pods stuck in CrashLoopBackOff.
    #[command(flatten)]
    pub refresh: RefreshOptions,
    /// Flags of the bridges to other projects' objects.
    #[command(flatten)]
    pub bridges: BridgeOptions,
    /// Flags of the log.
    #[command(flatten)]
    pub log: LogOptions,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, clap::Error> {
        Options::try_parse_from(["evacuation-controller"].iter().chain(arguments))
    }

    #[test]
    fn leader_election_is_on_unless_it_is_switched_off() {
        assert!(parse(&[]).unwrap().leader_elect);
        assert!(parse(&["--leader-elect"]).unwrap().leader_elect);
        assert!(parse(&["--leader-elect=true"]).unwrap().leader_elect);
        assert!(!parse(&["--leader-elect=false"]).unwrap().leader_elect);
    }

    #[test]
    fn refreshing_is_on_unless_it_is_switched_off_and_its_times_are_durations() {
        assert!(parse(&[]).unwrap().refresh.refresh);
        assert!(!parse(&["--refresh=false"]).unwrap().refresh.refresh);
        let options = parse(&["--refresh-backoff=90s"]).unwrap().refresh;
        assert_eq!(options.refresh_backoff.num_seconds(), 90);
        assert_eq!(options.refresh_longest_backoff.num_hours(), 6);
        for wrong in ["--refresh-backoff=10", "--refresh-settled-after=0s", "--refresh-per-minute=0"] {
            assert!(parse(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_for_push_are_repeated_and_must_be_ranges() {
        let options = parse(&["--push-allow-cidr=127.100.0.0/16", "--push-allow-cidr=fd00::/8"]).unwrap();
        assert_eq!(options.push_allow_cidr.len(), 2);
        assert!(parse(&["--push-allow-cidr=127.100.0.0"]).is_err());
    }
}
