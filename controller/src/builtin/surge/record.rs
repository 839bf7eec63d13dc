//! The record on a released pod: the label that was taken, and how to give it back.

use evacuation_api::{RELEASED_ANNOTATION, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

/// Record of what was taken from a pod. The pod's annotation holds it until nothing is left to undo.
///
/// The policy `evacuation-pod-updates` reads the first two fields as text, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// The label that was taken.
    pub(super) label: Label,
    /// The ReplicaSet that owned the pod.
    pub(super) replica_set: Reference,
    /// The Evacuation for which it was taken.
    pub(super) evacuation: Reference,
    /// Time of the release, by the API server's clock.
    pub(super) time: Timestamp,
    /// Time of the responder's refusal, if this is another attempt after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after_refusal: Option<Timestamp>,
    /// Present from the time at which the label was put back until the ReplicaSet has its pods again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) returning: Option<Returning>,
}

/// A label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Label {
    pub(super) key: String,
    pub(super) value: String,
}

/// An object of the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reference {
    pub(super) name: String,
    pub(super) uid: String,
}

/// State of a pod that is being given back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Returning {
    /// Deletion cost that the pod had of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deletion_cost: Option<String>,
}

impl Record {
    /// Reads the record on a pod. `None` if there is none, or if it cannot be read.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        serde_json::from_str(annotation(pod, RELEASED_ANNOTATION)?).ok()
    }

    /// Text of the annotation.
    pub(super) fn text(&self) -> String {
        // A struct of texts and times always has its JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Annotation of a pod.
pub(super) fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Returns true for a pod that carries the annotation, readable or not.
pub(super) fn is_released(pod: &Pod) -> bool {
    annotation(pod, RELEASED_ANNOTATION).is_some()
}

/// UID of the ReplicaSet that a pod was released from.
pub(super) fn released_from(pod: &Pod) -> Option<String> {
    Record::of(pod).map(|record| record.replica_set.uid)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_begins_with_the_text_that_the_policy_reads() {
        let record = json!({"label": {"key": "pod-template-hash", "value": "5f"}, "replicaSet": {"name": "r", "uid": "u"},
            "evacuation": {"name": "e", "uid": "e1"}, "time": "2026-01-01T00:00:00Z"});
        let record: Record = serde_json::from_value(record).unwrap();
        let beginning =
            r#"{"label":{"key":"pod-template-hash","value":"5f"},"replicaSet":{"name":"r","uid":"u"}"#;
        assert!(record.text().starts_with(beginning), "{}", record.text());
    }
}
