//! Why a pod that reached a threshold is not asked, or not yet.

use chrono::{DateTime, Utc};

/// Why a pod that reached a threshold is not asked, or not yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nobody makes it anew.
    NoOwner {
        /// The kind of who controls it, if anybody does.
        controller: Option<String>,
    },
    /// Its ReplicaSet was not seen yet.
    OwnerUnseen,
    /// Another pod of the owner is asked.
    OneAtATime {
        /// The Evacuation.
        evacuation: String,
    },
    /// A pod of the owner was asked not long ago.
    Backoff {
        /// Until when.
        until: DateTime<Utc>,
        /// How often pods of the owner were asked since they were last well.
        attempts: u32,
    },
    /// A pod of the owner is not ready for being new.
    NewPod {
        /// Its name.
        pod: String,
    },
    /// Many pods of the cluster were asked within the last minute.
    RateLimit,
}

impl Hold {
    /// The reason of an Event on the pod. `None` where it is over before anybody reads of it.
    pub(super) fn event_reason(&self) -> Option<&'static str> {
        match self {
            Self::NoOwner { .. } => Some("RefreshNotPossible"),
            Self::OwnerUnseen => None,
            Self::OneAtATime { .. } => Some("RefreshOneAtATime"),
            Self::Backoff { .. } => Some("RefreshBackoff"),
            Self::NewPod { .. } => Some("RefreshAwaitsNewPod"),
            Self::RateLimit => Some("RefreshRateLimited"),
        }
    }

    /// The reason in a word for metrics.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::NoOwner { .. } => "no_owner",
            Self::OwnerUnseen => "owner_unseen",
            Self::OneAtATime { .. } => "one_at_a_time",
            Self::Backoff { .. } => "backoff",
            Self::NewPod { .. } => "new_pod",
            Self::RateLimit => "rate_limit",
        }
    }
}

impl std::fmt::Display for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoOwner { controller: None } => f.write_str("no controller would make it anew"),
            Self::NoOwner { controller: Some(kind) } => write!(
                f,
                "it belongs to a {kind}; pods of Deployments, ReplicaSets, StatefulSets and ReplicationControllers are refreshed"
            ),
            Self::OwnerUnseen => f.write_str("its ReplicaSet was not seen yet"),
            Self::OneAtATime { evacuation } => {
                write!(f, "one pod of its owner at a time, and evacuation {evacuation} has not ended")
            }
            Self::Backoff { until, attempts } => write!(
                f,
                "not before {}: pods of its owner were asked to move {attempts} times since they were last well",
                until.format("%Y-%m-%d %H:%M:%S UTC")
            ),
            Self::NewPod { pod } => write!(f, "pod {pod} of its owner is new and not ready yet"),
            Self::RateLimit => {
                f.write_str("many pods of the cluster were asked to move within the last minute")
            }
        }
    }
}
