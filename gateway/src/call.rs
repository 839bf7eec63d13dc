//! One call that evicts or deletes a pod, as the kube-apiserver describes it.

use evacuation_api::Operation;
use k8s_openapi::api::core::v1::Pod;
use machinery_auth::UserInfo;

/// One call that evicts or deletes a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) operation: Operation,
    /// Namespace of the pod.
    pub(crate) namespace: String,
    /// Name of the pod.
    pub(crate) pod: String,
    /// UID that the pod must have, if the caller gave one.
    pub(crate) uid: Option<String>,
    /// resourceVersion that the pod must have, if the caller gave one.
    pub(crate) resource_version: Option<String>,
    /// The user of the call.
    pub(crate) user: UserInfo,
    /// Grace period of the call. For a deletion the kube-apiserver fills in the pod's own.
    pub(crate) grace_period_seconds: Option<i64>,
    /// True when the caller gave a propagation policy. The garbage collector and the namespace controller do;
    /// the other controllers do not.
    pub(crate) propagates: bool,
    /// True when nothing is to be stored.
    pub(crate) dry_run: bool,
}

impl Call {
    /// Returns the pod as `NAMESPACE/NAME`.
    pub(crate) fn target(&self) -> String {
        format!("{}/{}", self.namespace, self.pod)
    }

    /// Returns the resourceVersion that the caller requires, if the pod has another one.
    pub(crate) fn other_version<'c>(&'c self, pod: &Pod) -> Option<&'c str> {
        let wanted = self.resource_version.as_deref();
        wanted.filter(|wanted| pod.metadata.resource_version.as_deref() != Some(*wanted))
    }
}
