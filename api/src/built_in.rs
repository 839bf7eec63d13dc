//! The built-in responders and the built-in requester, and the pod annotations that they read and write.

use crate::names::is_own_domain;

/// Name of the responder that has a replacement ready before the pod goes.
pub const REPLACEMENT_RESPONDER: &str = "surge.evacuation.dev/replacement";
/// Reason by which it accepts for a pod that can have no replacement beside it.
pub const NO_REPLACEMENT_REASON: &str = "NoReplacement";
/// Annotation with the label that the controller took off a pod, so that its ReplicaSet makes a replacement.
/// JSON, with all that is needed to undo it.
pub const RELEASED_ANNOTATION: &str = "surge.evacuation.dev/released";
/// Annotation with the time that a pod's replacement may take to be ready, in seconds; 600 by default.
pub const REPLACEMENT_TIMEOUT_ANNOTATION: &str = "surge.evacuation.dev/timeout-seconds";

/// Annotation of a pod that must not run beside its replacement: `true`.
pub const ONE_AT_A_TIME_ANNOTATION: &str = "surge.evacuation.dev/one-at-a-time";

/// Names of the responders that the controller plays. Other names of the project's domain are rejected.
pub const BUILT_IN_RESPONDERS: &[&str] = &[REPLACEMENT_RESPONDER, GATE_RESPONDER, MIGRATE_RESPONDER];

/// Name of the responder that waits until a condition or an annotation of the pod opens its gate.
pub const GATE_RESPONDER: &str = "gate.evacuation.dev/condition";
/// Annotation with the name of the Evacuation that waits at a pod's gate. Written by the controller.
pub const GATE_ASKED_ANNOTATION: &str = "gate.evacuation.dev/asked";
/// Annotation that opens the gate: `true`, or the name of one Evacuation; `false` refuses.
pub const GATE_OPEN_ANNOTATION: &str = "gate.evacuation.dev/open";
/// Annotation with the reason of a shut gate, in words.
pub const GATE_MESSAGE_ANNOTATION: &str = "gate.evacuation.dev/message";
/// Annotation with the type of the pod condition that opens the gate; [`GATE_OPEN_CONDITION`] by default.
pub const GATE_CONDITION_TYPE_ANNOTATION: &str = "gate.evacuation.dev/condition-type";
/// Type of the pod condition that opens the gate when it is True, unless the pod names another.
pub const GATE_OPEN_CONDITION: &str = "gate.evacuation.dev/Open";

/// Name of the responder that migrates a KubeVirt virtual machine before its pod goes. The controller plays
/// it where the bridge to KubeVirt is on.
pub const MIGRATE_RESPONDER: &str = "kubevirt.evacuation.dev/migrate";

/// Finalizer that holds a DrainRequest of NVSentinel until it is complete, or its requests are withdrawn.
pub const DRAIN_REQUEST_FINALIZER: &str = "evacuation.dev/drain-request";
/// Finalizer that holds a NodeMaintenance of medik8s until its drain is taken back.
pub const NODE_MAINTENANCE_FINALIZER: &str = "evacuation.dev/node-maintenance";
/// Label of a node that medik8s' remediators leave alone.
pub const EXCLUDED_LABEL: &str = "remediation.medik8s.io/exclude-from-remediation";
/// Annotation of a node whose label [`EXCLUDED_LABEL`] the controller set.
pub const EXCLUDED_ANNOTATION: &str = "bridge.evacuation.dev/excluded-from-remediation";

/// Label of a namespace that opts its pods into refreshing, and annotation of a pod that opts it in or out.
pub const REFRESH_ENABLED_ANNOTATION: &str = "refresh.evacuation.dev/enabled";
/// Number of restarts of a container after which its pod is refreshed.
pub const REFRESH_AFTER_RESTARTS_ANNOTATION: &str = "refresh.evacuation.dev/after-restarts";
/// Time in a crash loop after which a pod is refreshed, such as `10m`.
pub const REFRESH_AFTER_ANNOTATION: &str = "refresh.evacuation.dev/after";

/// Returns true for a name of the project's domains that no built-in responder has.
pub fn is_unknown_built_in(responder: &str) -> bool {
    let own = responder.split_once('/').is_some_and(|(domain, _)| is_own_domain(domain));
    own && !BUILT_IN_RESPONDERS.contains(&responder)
}
