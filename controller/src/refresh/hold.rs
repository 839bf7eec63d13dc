//! Reasons for which a pod that reached a threshold is not asked yet.

use chrono::{DateTime, Utc};

/// Reason for which a pod that reached a threshold is not asked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// No controller would recreate it.
    NoOwner {
        /// Kind of the pod's controller, if it has one.
        controller: Option<String>,
    },
    /// The watch has not shown its ReplicaSet yet.
    OwnerUnseen,
    /// Another pod of the owner is asked.
    OneAtATime {
        /// Name of the Evacuation.
        evacuation: String,
    },
    /// The backoff of the owner has not ended.
    Backoff {
        /// End of the backoff.
        until: DateTime<Utc>,
        /// Number of times that pods of the owner were asked since they were last well.
        attempts: u32,
    },
    /// A pod of the owner is new and not ready yet.
    NewPod {
        /// Name of the new pod.
        pod: String,
    },
    /// The limit of requests in a minute is reached in the cluster.
    RateLimit,
    /// The namespace's share of that limit is reached.
    NamespaceShare,
}

impl Hold {
    /// Reason of the Event on the pod. `None` for a hold that ends before an Event is read.
    pub(super) fn event_reason(&self) -> Option<&'static str> {
        match self {
            Self::NoOwner { .. } => Some("RefreshNotPossible"),
            Self::OwnerUnseen => None,
            Self::OneAtATime { .. } => Some("RefreshOneAtATime"),
            Self::Backoff { .. } => Some("RefreshBackoff"),
            Self::NewPod { .. } => Some("RefreshAwaitsNewPod"),
            Self::RateLimit | Self::NamespaceShare => Some("RefreshRateLimited"),
        }
    }

    /// Label of the metric.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::NoOwner { .. } => "no_owner",
            Self::OwnerUnseen => "owner_unseen",
            Self::OneAtATime { .. } => "one_at_a_time",
            Self::Backoff { .. } => "backoff",
            Self::NewPod { .. } => "new_pod",
            Self::RateLimit => "rate_limit",
            Self::NamespaceShare => "namespace_share",
        }
    }
}

impl std::fmt::Display for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoOwner { controller: None } => f.write_str("no controller would recreate it"),
            Self::NoOwner { controller: Some(kind) } => write!(
                f,
                "it belongs to a {kind}; pods of Deployments, ReplicaSets, StatefulSets and ReplicationControllers are refreshed"
            ),
            Self::OwnerUnseen => f.write_str("its ReplicaSet is not listed yet"),
            Self::OneAtATime { evacuation } => {
                write!(f, "one pod of its owner at a time, and evacuation {evacuation} has not ended")
            }
            Self::Backoff { until, attempts } => write!(
                f,
                "not before {}: pods of its owner were asked to move {attempts} {} since they were last well",
                until.format("%Y-%m-%d %H:%M:%S UTC"),
                if *attempts == 1 { "time" } else { "times" },
            ),
            Self::NewPod { pod } => write!(f, "pod {pod} of its owner is new and not ready yet"),
            Self::NamespaceShare => {
                f.write_str("many pods of the namespace were asked to move within the last minute")
            }
            Self::RateLimit => {
                f.write_str("many pods of the cluster were asked to move within the last minute")
            }
        }
    }
}
