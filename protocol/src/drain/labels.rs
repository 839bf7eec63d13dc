//! Selection of pods by their labels, of which a cache may keep only a part.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::LabelSelector};

use crate::responders::selects;

/// Label that a cache adds to a pod of which it does not keep all labels.
pub const LABELS_CUT: &str = "cache.evacuation.dev/labels-cut";

/// Returns true when a drain's selector picks the pod. Without a selector every pod is picked.
///
/// A pod whose labels are not all known is picked by every selector: its author takes it out of no drain by
/// labels that push others out of a cache.
pub(super) fn is_picked(pod: &Pod, selector: Option<&LabelSelector>) -> bool {
    let none = BTreeMap::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
    selector.is_none_or(|selector| labels.contains_key(LABELS_CUT) || selects(selector, labels))
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
