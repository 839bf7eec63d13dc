//! The record on a released pod: what was taken from it, and how to give it back.

use evacuation_api::{RELEASED_ANNOTATION, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

/// What was taken from a pod. It stands in the pod's annotation for as long as anything is left to undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// The label that was taken.
    pub(super) label: Label,
    /// The ReplicaSet that owned the pod.
    pub(super) replica_set: Reference,
    /// The Evacuation for which it was taken.
    pub(super) evacuation: Reference,
    /// When, by the API server's clock.
    pub(super) time: Timestamp,
    /// When the responder had refused, if this is another attempt after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after_refusal: Option<Timestamp>,
    /// Set once the label was given back, until the ReplicaSet has its pods again.
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

/// What is left to give back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Returning {
    /// The pod's own deletion cost, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deletion_cost: Option<String>,
}

impl Record {
    /// The record on a pod. `None` where there is none, or none that can be read.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        serde_json::from_str(annotation(pod, RELEASED_ANNOTATION)?).ok()
    }

    /// The annotation's text.
    pub(super) fn text(&self) -> String {
        // A struct of texts and times always has its JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// An annotation of a pod.
pub(super) fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Whether a pod carries the annotation, readable or not.
pub(super) fn is_released(pod: &Pod) -> bool {
    annotation(pod, RELEASED_ANNOTATION).is_some()
}

/// The UID of the ReplicaSet that a pod was released from.
pub(super) fn released_from(pod: &Pod) -> Option<String> {
    Record::of(pod).map(|record| record.replica_set.uid)
}
