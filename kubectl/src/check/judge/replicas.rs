//! Replicas of the project's workloads.

use std::fmt::{Display, Formatter, Result};

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::ResourceExt;

use super::super::reader::{Read, Unread};

/// Replicas of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Replicas {
    /// Numbers of a workload in the cluster.
    Counted { ready: i32, wanted: i32 },
    /// There is no such workload: its processes run elsewhere.
    Elsewhere,
    /// The workloads cannot be read, for that reason.
    Unknown(String),
}

impl Replicas {
    /// Replicas of the Deployment with that name.
    pub(super) fn of_deployment(deployments: &Read<Vec<Deployment>>, name: &str) -> Self {
        Self::of(deployments, name, |deployment| {
            let wanted = deployment.spec.replicas;
            (deployment.status.as_ref().and_then(|status| status.ready_replicas), wanted)
        })
    }

    /// Replicas of the StatefulSet with that name.
    pub(super) fn of_stateful_set(sets: &Read<Vec<StatefulSet>>, name: &str) -> Self {
        Self::of(sets, name, |set| {
            let wanted = set.spec.replicas;
            (set.status.as_ref().and_then(|status| status.ready_replicas), wanted)
        })
    }

    fn of<K: ResourceExt>(
        workloads: &Read<Vec<K>>,
        name: &str,
        count: impl Fn(&K) -> (Option<i32>, Option<i32>),
    ) -> Self {
        match workloads {
            Ok(all) => match all.iter().find(|workload| workload.name_any() == name).map(count) {
                // Kubernetes' default is one replica.
                Some((ready, wanted)) => {
                    Self::Counted { ready: ready.unwrap_or(0), wanted: wanted.unwrap_or(1) }
                }
                None => Self::Elsewhere,
            },
            Err(Unread::Forbidden(right)) => Self::Unknown(format!("you cannot {right}")),
            Err(Unread::Absent) => Self::Elsewhere,
            Err(Unread::Failed(text)) => Self::Unknown(text.clone()),
        }
    }

    /// Returns true when fewer replicas are ready than are wanted.
    pub(super) fn is_short(&self) -> bool {
        matches!(self, Self::Counted { ready, wanted } if ready < wanted)
    }

    /// Returns true when no replica is ready.
    pub(super) fn is_down(&self) -> bool {
        matches!(self, Self::Counted { ready: 0, .. })
    }

    /// Returns true when too few replicas are ready for a quorum.
    pub(super) fn has_no_majority(&self) -> bool {
        matches!(self, Self::Counted { ready, wanted } if *ready <= *wanted / 2)
    }

    /// Returns true when at least one replica is ready.
    pub(super) fn is_up(&self) -> bool {
        matches!(self, Self::Counted { ready: 1.., .. })
    }
}

impl Display for Replicas {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Counted { ready, wanted: 1 } => write!(f, "{ready} of 1 replica ready"),
            Self::Counted { ready, wanted } => write!(f, "{ready} of {wanted} replicas ready"),
            Self::Elsewhere => f.write_str("no replicas in the cluster"),
            Self::Unknown(reason) => write!(f, "replicas not known: {reason}"),
        }
    }
}

/// Returns the command that shows the pods of a workload.
pub(super) fn pods_of(namespace: &str, name: &str) -> String {
    format!("kubectl get pods -n {namespace} -l app.kubernetes.io/name={name}")
}
