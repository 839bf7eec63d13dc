//! Selection of pods by their labels, of which a cache may keep only a part.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::LabelSelector};

use crate::responders::PackedSelector;

/// Label that a cache adds to a pod of which it does not keep all labels.
pub const LABELS_CUT: &str = "cache.evacuation.dev/labels-cut";

/// The pod selector of a drain, read once for many pods.
pub(super) enum PodSelector {
    /// There is none: every pod is picked.
    All,
    /// Those with these labels are picked; `None` for a selector that is not valid.
    Labels(Option<PackedSelector>),
}

impl PodSelector {
    /// Returns the selector of a drain.
    pub(super) fn of(selector: Option<&LabelSelector>) -> Self {
        selector.map_or(Self::All, |selector| Self::Labels(PackedSelector::of(selector)))
    }

    /// Returns true when it picks the pod.
    ///
    /// A pod whose labels are not all known is picked by every selector: its author takes it out of no drain
    /// by labels that push others out of a cache.
    pub(super) fn picks(&self, pod: &Pod) -> bool {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&NONE);
        match self {
            Self::All => true,
            Self::Labels(_) if labels.contains_key(LABELS_CUT) => true,
            Self::Labels(selector) => selector.as_ref().is_some_and(|selector| selector.selects(labels)),
        }
    }
}

/// Returns true when a drain's selector picks the pod. Without a selector every pod is picked.
pub(super) fn is_picked(pod: &Pod, selector: Option<&LabelSelector>) -> bool {
    PodSelector::of(selector).picks(pod)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_whose_labels_are_not_all_known_is_picked_by_every_selector() {
        let pod = |labels| serde_json::from_value::<Pod>(json!({"metadata": {"labels": labels}})).unwrap();
        let selector = serde_json::from_value(json!({"matchLabels": {"zone": "a"}})).unwrap();
        let table = [
            (pod(json!({"zone": "a"})), true),
            (pod(json!({"zone": "b"})), false),
            (pod(json!({})), false),
            (pod(json!({"zone": "b", LABELS_CUT: ""})), true),
        ];
        for (pod, expected) in table {
            assert_eq!(is_picked(&pod, Some(&selector)), expected, "{pod:?}");
            assert!(is_picked(&pod, None));
        }
    }
}
