//! Names in the API.

/// Name of the requester's entry in each Evacuation that it creates.
pub(crate) const REQUESTER: &str = "refresh.evacuation.dev/crash-loop";
/// Label of a namespace that opts its pods in, and annotation of a pod that opts it in or out.
pub(crate) const ENABLED: &str = "refresh.evacuation.dev/enabled";
/// Annotation with the number of restarts of a container after which a pod is refreshed.
pub(crate) const AFTER_RESTARTS: &str = "refresh.evacuation.dev/after-restarts";
/// Annotation with the time in a crash loop after which a pod is refreshed.
pub(crate) const AFTER: &str = "refresh.evacuation.dev/after";
/// Label of an Evacuation with the UID of the pod's owner.
pub(crate) const OWNER: &str = "refresh.evacuation.dev/owner";
/// Annotation of an Evacuation with the number of the attempt since the owner was last well, from 1.
pub(crate) const ATTEMPT: &str = "refresh.evacuation.dev/attempt";
/// Annotation of an Evacuation with the time since which the owner's pods are well. The next attempt is a
/// first one.
pub(crate) const SETTLED: &str = "refresh.evacuation.dev/settled";
/// Reason of the requester's entry.
pub(crate) const REASON: &str = "CrashLoopBackOff";
