//! The names on the wire.

/// The requester's entry in each Evacuation that it makes.
pub(crate) const REQUESTER: &str = "refresh.evacuation.dev/crash-loop";
/// Of a namespace, the label that opts its pods in; of a pod, the annotation that opts it in or out.
pub(crate) const ENABLED: &str = "refresh.evacuation.dev/enabled";
/// The annotation that says after how many restarts of a container a pod is refreshed.
pub(crate) const AFTER_RESTARTS: &str = "refresh.evacuation.dev/after-restarts";
/// The annotation that says after what time in a crash loop a pod is refreshed.
pub(crate) const AFTER: &str = "refresh.evacuation.dev/after";
/// The label of an Evacuation that names the UID of the owner whose pod it is about.
pub(crate) const OWNER: &str = "refresh.evacuation.dev/owner";
/// The annotation of an Evacuation that says which attempt it was since the owner was last well, from 1.
pub(crate) const ATTEMPT: &str = "refresh.evacuation.dev/attempt";
/// The annotation of an Evacuation that says since when the owner's pods were found well afterwards: the next attempt is a first one.
pub(crate) const SETTLED: &str = "refresh.evacuation.dev/settled";
/// The requester's reason.
pub(crate) const REASON: &str = "CrashLoopBackOff";
