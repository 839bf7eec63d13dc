//! The controllers of pods: their kinds, their accounts, and live reads of them.

use std::{fmt, ops::Range};

use k8s_openapi::{
    api::{apps::v1::StatefulSet, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Api, Client, Resource, ResourceExt, core::NamespaceResourceScope};
use serde::de::DeserializeOwned;

/// User of the kube-controller-manager without `--use-service-account-credentials`: all of its controllers.
pub(crate) const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";

/// Returns the user of a controller of Kubernetes with a service account of its own.
pub(crate) fn controller_user(account: &str) -> String {
    format!("system:serviceaccount:kube-system:{account}")
}

/// Returns the reference to the owner that manages an object.
pub(crate) fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Returns the ordinals of the pods that a StatefulSet wants.
pub(crate) fn ordinals(set: &StatefulSet) -> Range<i32> {
    let start = set.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
    start..start.saturating_add(set.spec.replicas.unwrap_or(1))
}

/// Returns the number at the end of a pod's name, by which a StatefulSet knows its pods.
pub(crate) fn ordinal(pod: &Pod) -> Option<i32> {
    pod.metadata.name.as_deref().and_then(|name| name.rsplit_once('-')?.1.parse().ok())
}

/// The controller of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) kind: OwnerKind,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// The kinds of owners whose controllers delete pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnerKind {
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    DaemonSet,
    Job,
}

impl OwnerKind {
    fn of(api_version: &str, kind: &str) -> Option<Self> {
        match (api_version, kind) {
            ("apps/v1", "ReplicaSet") => Some(Self::ReplicaSet),
            ("v1", "ReplicationController") => Some(Self::ReplicationController),
            ("apps/v1", "StatefulSet") => Some(Self::StatefulSet),
            ("apps/v1", "DaemonSet") => Some(Self::DaemonSet),
            ("batch/v1", "Job") => Some(Self::Job),
            _ => None,
        }
    }

    /// Returns the service account of the controller of that kind.
    pub(crate) fn account(self) -> &'static str {
        match self {
            Self::ReplicaSet => "replicaset-controller",
            Self::ReplicationController => "replication-controller",
            Self::StatefulSet => "statefulset-controller",
            Self::DaemonSet => "daemon-set-controller",
            Self::Job => "job-controller",
        }
    }

    /// Returns true when a call of that user is one of the controller of that kind.
    pub(crate) fn is_controlled_by(self, user: &str) -> bool {
        user == CONTROLLER_MANAGER || user == controller_user(self.account())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}/{}", self.kind, self.namespace, self.name)
    }
}

impl Owner {
    /// Returns the controller of a pod, if it is of a known kind.
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        let owner = controller_of(&pod.metadata)?;
        Some(Self {
            kind: OwnerKind::of(&owner.api_version, &owner.kind)?,
            namespace: pod.namespace()?,
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        })
    }

    /// Reads the owner live. `None` when it is gone, or another object has its name.
    ///
    /// # Errors
    ///
    /// The kube-apiserver did not answer.
    pub(crate) async fn read<K>(&self, client: &Client) -> kube::Result<Option<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + fmt::Debug + DeserializeOwned,
    {
        read(client, &self.namespace, &self.name, &self.uid).await
    }
}

/// Reads an object live. `None` when it is gone, or another object has its name.
///
/// # Errors
///
/// The kube-apiserver did not answer.
pub(crate) async fn read<K>(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: &str,
) -> kube::Result<Option<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + fmt::Debug + DeserializeOwned,
{
    let found = Api::<K>::namespaced(client.clone(), namespace).get_opt(name).await?;
    Ok(found.filter(|object| object.meta().uid.as_deref() == Some(uid)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod_of;

    #[test]
    fn the_controller_of_an_owner_is_known_by_its_user() {
        let account = |name: &str| format!("system:serviceaccount:kube-system:{name}");
        assert!(OwnerKind::ReplicaSet.is_controlled_by(&account("replicaset-controller")));
        assert!(OwnerKind::ReplicaSet.is_controlled_by(CONTROLLER_MANAGER));
        assert!(!OwnerKind::ReplicaSet.is_controlled_by(&account("job-controller")));
        assert!(!OwnerKind::ReplicaSet.is_controlled_by("system:serviceaccount:shop:replicaset-controller"));
        assert!(!OwnerKind::ReplicaSet.is_controlled_by("system:kube-scheduler"));
    }

    #[test]
    fn an_owner_of_another_group_or_kind_is_not_known() {
        // The pod's owner is of the version v1.
        assert_eq!(Owner::of(&pod_of(Some("ReplicaSet"), None)), None);
        let owner = Owner::of(&pod_of(Some("ReplicationController"), None)).unwrap();
        assert_eq!((owner.kind, owner.name.as_str()), (OwnerKind::ReplicationController, "o"));
        assert_eq!(Owner::of(&pod_of(None, None)), None);
    }
}
