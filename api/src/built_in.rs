//! The responders that the controller plays itself, and the pod annotations that they read and write.

/// The responder that has a replacement ready before the pod goes.
pub const REPLACEMENT_RESPONDER: &str = "surge.evacuation.dev/replacement";
/// What was taken from a pod so that its ReplicaSet makes a replacement, and how to undo it: JSON, written by the controller.
pub const RELEASED_ANNOTATION: &str = "surge.evacuation.dev/released";
/// How long a pod's replacement may take to be ready, in seconds; 600 by default.
pub const REPLACEMENT_TIMEOUT_ANNOTATION: &str = "surge.evacuation.dev/timeout-seconds";

/// The responder that waits until a condition or an annotation of the pod says that it may go.
pub const GATE_RESPONDER: &str = "gate.evacuation.dev/condition";
/// The name of the Evacuation that waits at a pod's gate. Written by the controller.
pub const GATE_ASKED_ANNOTATION: &str = "gate.evacuation.dev/asked";
/// `true`, or the name of the Evacuation that may pass; `false` refuses.
pub const GATE_OPEN_ANNOTATION: &str = "gate.evacuation.dev/open";
/// Why the gate is shut, in words.
pub const GATE_MESSAGE_ANNOTATION: &str = "gate.evacuation.dev/message";
/// The type of the pod condition that opens the gate; [`GATE_OPEN_CONDITION`] by default.
pub const GATE_CONDITION_TYPE_ANNOTATION: &str = "gate.evacuation.dev/condition-type";
/// The pod condition that opens the gate when it is True, unless the pod names another.
pub const GATE_OPEN_CONDITION: &str = "gate.evacuation.dev/Open";
