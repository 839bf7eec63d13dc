//! The names that appear on the wire.

/// Name of the API group.
pub const GROUP: &str = "evacuation.dev";
/// The version of the API group that this crate describes.
pub const VERSION: &str = "v1alpha1";
/// Domain of the names that the project owns, such as `drain.evacuation.dev/NODE_USER`.
pub const DOMAIN: &str = GROUP;
/// Pod annotation that registers responders: a JSON list of [`ResponderEntry`](crate::ResponderEntry).
pub const RESPONDERS_ANNOTATION: &str = "evacuation.dev/responders";
/// Name of the responder that is the target pod itself.
pub const SELF_RESPONDER: &str = "self";
/// Finalizer that holds a deleted Evacuation until the responders that were asked know of the cancellation.
pub const CANCELLATION_FINALIZER: &str = "evacuation.dev/cancellation";
/// Domain of the gateway: its labels, its entries' names, its configuration.
pub const GATEWAY_DOMAIN: &str = "gateway.evacuation.dev";
/// Domain of the API server's own files.
pub const APISERVER_DOMAIN: &str = "apiserver.evacuation.dev";
/// Prefix of the names of the gateway's entries. The name of the caller's row in its table follows.
pub const GATEWAY_ENTRY_PREFIX: &str = "gateway.evacuation.dev/";
/// Rows of the gateway for the controllers that own pods. They delete pods that they no longer want.
pub const GATEWAY_WORKLOAD_ROWS: [&str; 4] = ["replicaset", "statefulset", "daemonset", "job"];
/// Name of the controller's entry for a pod that is stuck in CrashLoopBackOff.
pub const REFRESH_REQUESTER: &str = "refresh.evacuation.dev/crash-loop";
/// Name of the entry by which the controller asks a pod because another pod of its PodGroup is asked.
pub const POD_GROUP_REQUESTER: &str = "pod-group.evacuation.dev/member";
/// Name of the ValidatingWebhookConfiguration by which the gateway is called.
pub const GATEWAY_WEBHOOKS: &str = "evacuation-gateway";
/// Name of a pod that does not exist. The gateway answers a dry run of its eviction with the warning
/// [`GATEWAY_ANSWERS`] or [`GATEWAY_STARTS`].
pub const GATEWAY_TRIAL_POD: &str = "trial.gateway.evacuation.dev";
/// Warning by which a trial call shows that the kube-apiserver reaches the gateway.
pub const GATEWAY_ANSWERS: &str = "the evacuation gateway answers";
/// The same of a gateway that has not read what it judges by.
pub const GATEWAY_STARTS: &str = "the evacuation gateway answers, and cannot judge yet";
/// Label of a namespace. With the value [`GATEWAY_ASK_ALL`] the gateway also opens Evacuations for pods
/// without responders.
pub const GATEWAY_ASK_LABEL: &str = "gateway.evacuation.dev/ask";
/// The value of [`GATEWAY_ASK_LABEL`].
pub const GATEWAY_ASK_ALL: &str = "all";
/// Label of a namespace. With the value [`GATEWAY_COUNT_DELETIONS`] deletions by workload controllers and by
/// preemption count against PodDisruptionBudgets.
pub const GATEWAY_COUNT_LABEL: &str = "gateway.evacuation.dev/count";
/// The value of [`GATEWAY_COUNT_LABEL`].
pub const GATEWAY_COUNT_DELETIONS: &str = "deletions";

/// Causes of a 403 that a limit or a ResourceQuota of the API sends: the caller may write, but finds no room.
pub const LIMIT_CAUSES: [&str; 6] = [
    "NamespaceObjectLimit",
    "NamespaceByteLimit",
    "TotalByteLimit",
    "UserObjectLimit",
    "UserByteLimit",
    "ResourceQuota",
];

/// The `apiVersion` of every object of this API.
pub fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}

/// Returns true when a domain is the project's or below it.
pub(crate) fn is_own_domain(domain: &str) -> bool {
    domain.strip_suffix(DOMAIN).is_some_and(|below| below.is_empty() || below.ends_with('.'))
}
