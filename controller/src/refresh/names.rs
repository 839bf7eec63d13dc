//! Names in the API.

/// Name of the requester's entry in each Evacuation that it creates.
pub(crate) use evacuation_api::REFRESH_REQUESTER as REQUESTER;

/// Label of an Evacuation with the UID of the pod's owner.
pub(crate) const OWNER: &str = "refresh.evacuation.dev/owner";
/// Annotation of an Evacuation with the number of the attempt since the owner was last well, from 1.
pub(crate) const ATTEMPT: &str = "refresh.evacuation.dev/attempt";
/// Annotation of an Evacuation with the time since which the owner's pods are well. The next attempt is a
/// first one.
pub(crate) const SETTLED: &str = "refresh.evacuation.dev/settled";
/// Reason of the requester's entry.
pub(crate) const REASON: &str = "CrashLoopBackOff";
