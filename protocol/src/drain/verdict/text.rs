//! Texts of messages: times, names, and the words of others.

use chrono::{DateTime, SecondsFormat, Utc};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use super::DrainedPod;
use crate::pod::controller;
pub(super) use crate::status::{quote, remark};

/// Returns the controller of a pod as `KIND/NAME`, in words that its author chose.
pub(in crate::drain) fn owner(pod: &Pod) -> Option<String> {
    controller(pod).map(|owner| format!("{}/{}", quote(&owner.kind), quote(&owner.name)))
}

/// Returns a time in whole seconds.
pub(super) fn time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Returns the name of an object.
pub(super) fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// Returns the verb of a number of things.
pub(super) fn is_or_are(number: i32) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

/// Returns the statement that the pod's node does not report. `None` for a node that reports.
pub(super) fn dead_node(pod: &DrainedPod<'_>) -> Option<String> {
    let since = pod.node_silent_since?;
    // Without a time the kubelet has been silent from the start.
    let since =
        if since == DateTime::<Utc>::MIN_UTC { String::new() } else { format!(" since {}", time(since)) };
    Some(format!("node {} does not report{since}", pod.node))
}

/// Returns `1 pod`, `2 pods`.
pub(super) fn pods(number: usize) -> String {
    if number == 1 { "1 pod".to_owned() } else { format!("{number} pods") }
}
