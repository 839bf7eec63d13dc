//! Marks of ours on nodes and pods. Pure.
//!
//! A mark is ours only if it says so: a cordon by its annotation, a taint by its key and effect, a condition
//! by its reason. Settings that people write, such as `evacuation.dev/responders`, stay.

use evacuation_api::{
    CORDONED_BY_ANNOTATION, EXCLUDED_ANNOTATION, EXCLUDED_LABEL, GATE_ASKED_ANNOTATION, RELEASED_ANNOTATION,
};
use evacuation_protocol::{LIFECYCLE_CONDITIONS, cordon_holders, due_taints, is_own_condition};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod};
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::change::{Change, Request, guarded};
use crate::plain::{full_name, plain};

/// Label by which a ReplicaSet of a Deployment selects its pods: the only one that the responder takes.
const POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// Annotation by which a ReplicaSet chooses the pod to delete. The responder that releases pods sets it while
/// it gives one back.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Returns the changes that remove the marks of a node, which no drain has.
pub(super) fn of_node(node: &Node) -> Vec<Change> {
    let (name, object) = (node.name_any(), format!("node/{}", node.name_any()));
    let (mut spec, mut annotations, mut labels) = (Map::new(), Map::new(), Map::new());
    let mut words = Vec::new();
    if node.annotations().contains_key(CORDONED_BY_ANNOTATION) {
        annotations.insert(CORDONED_BY_ANNOTATION.to_owned(), Value::Null);
        let holders = cordon_holders(node).join(" and ");
        if !holders.is_empty() && node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
            spec.insert("unschedulable".to_owned(), Value::Null);
            words.push(format!("uncordon (cordoned by {holders})"));
        } else {
            words.push("remove its record of cordons".to_owned());
        }
    }
    if let Some(taints) = due_taints(node, []) {
        spec.insert("taints".to_owned(), json!(taints));
        words.push("remove the taint of a node that is due".to_owned());
    }
    if node.annotations().contains_key(EXCLUDED_ANNOTATION) {
        annotations.insert(EXCLUDED_ANNOTATION.to_owned(), Value::Null);
        labels.insert(EXCLUDED_LABEL.to_owned(), Value::Null);
        words.push("remove its exclusion from remediation".to_owned());
    }
    let mut changes = Vec::new();
    if !words.is_empty() {
        // With the version: the patch has all taints of the node, and another can add one.
        let metadata = guarded(node, [("annotations", json!(annotations)), ("labels", json!(labels))]);
        let patch = json!({"metadata": metadata, "spec": spec});
        let request = Request::Node { name: name.clone(), patch };
        changes.push(Change { object: object.clone(), text: plain(&words.join(", ")), request });
    }
    if let Some(conditions) = own_conditions(node) {
        // Last, because it makes another version. Conditions of one type are guarded by the UID alone.
        let patch: Vec<Value> =
            conditions.iter().map(|kind| json!({"type": kind, "$patch": "delete"})).collect();
        let patch = json!({"metadata": {"uid": node.uid()}, "status": {"conditions": patch}});
        let text = format!("remove the conditions {}", conditions.join(", "));
        let request = Request::Conditions { node: name, patch };
        changes.push(Change { object, text, request });
    }
    changes
}

/// Returns the types of the conditions that we wrote.
fn own_conditions(node: &Node) -> Option<Vec<&str>> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ours = |condition: &&NodeCondition| {
        LIFECYCLE_CONDITIONS.contains(&condition.type_.as_str()) && is_own_condition(condition)
    };
    let kinds: Vec<_> = conditions.iter().filter(ours).map(|condition| condition.type_.as_str()).collect();
    (!kinds.is_empty()).then_some(kinds)
}

/// Returns the change that removes the marks of a pod. A pod that was released from its ReplicaSet gets its
/// label back, so that the ReplicaSet adopts it.
pub(super) fn of_pod(pod: &Pod) -> Option<Change> {
    let (mut annotations, mut labels) = (Map::new(), Map::new());
    let mut words = Vec::new();
    if let Some(record) = pod.annotations().get(RELEASED_ANNOTATION) {
        annotations.insert(RELEASED_ANNOTATION.to_owned(), Value::Null);
        let record: Value = serde_json::from_str(record).unwrap_or_default();
        let label = |field: &str| record.pointer(&format!("/label/{field}")).and_then(Value::as_str);
        // A tenant may write the annotation: it gets back no label but that of ReplicaSets.
        if let (Some(key @ POD_TEMPLATE_HASH), Some(value)) = (label("key"), label("value")) {
            labels.insert(key.to_owned(), json!(value));
            words.push(format!("give back its label {key}={value}, by which its ReplicaSet adopts it"));
        } else {
            words.push(format!("remove its annotation {RELEASED_ANNOTATION}, which cannot be read"));
        }
        if let Some(returning) = record.get("returning") {
            let own = returning.get("deletionCost").cloned().unwrap_or_default();
            annotations.insert(DELETION_COST.to_owned(), own);
        }
    }
    if pod.annotations().contains_key(GATE_ASKED_ANNOTATION) {
        annotations.insert(GATE_ASKED_ANNOTATION.to_owned(), Value::Null);
        words.push("remove the question of its gate".to_owned());
    }
    if words.is_empty() {
        return None;
    }
    let fields = [("annotations", Value::Object(annotations)), ("labels", Value::Object(labels))];
    let metadata = guarded(pod, fields);
    let request = Request::Pod {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        patch: json!({"metadata": metadata}),
    };
    Some(Change { object: format!("pod/{}", full_name(pod)), text: plain(&words.join(", ")), request })
}

#[cfg(test)]
mod tests {
    use evacuation_api::{DUE_TAINT, NODE_MARKED};

    use super::*;

    fn texts(node: &Value) -> Vec<String> {
        let node: Node = serde_json::from_value(node.clone()).unwrap();
        of_node(&node).into_iter().map(|change| change.text).collect()
    }

    #[test]
    fn only_the_marks_that_name_us_are_removed_from_a_node() {
        let theirs = json!({"metadata": {"name": "a"}, "spec": {"unschedulable": true,
            "taints": [{"key": DUE_TAINT, "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Drained", "status": "True", "reason": "AdminRequested"}]}});
        assert_eq!(texts(&theirs), [""; 0]);
        let ours = json!({"metadata": {"name": "a", "annotations": {CORDONED_BY_ANNOTATION: "d"}},
            "spec": {"unschedulable": true, "taints": [{"key": DUE_TAINT, "effect": "PreferNoSchedule"}]},
            "status": {"conditions": [{"type": "Drained", "status": "True", "reason": NODE_MARKED},
                                      {"type": "Ready", "status": "True", "reason": "KubeletReady"}]}});
        let expected = [
            "uncordon (cordoned by d), remove the taint of a node that is due",
            "remove the conditions Drained",
        ];
        assert_eq!(texts(&ours), expected);
        let uncordoned = json!({"metadata": {"name": "a", "annotations": {CORDONED_BY_ANNOTATION: "d"}}});
        assert_eq!(texts(&uncordoned), ["remove its record of cordons"]);
    }

    #[test]
    fn a_node_that_was_changed_since_it_was_read_keeps_the_taints_of_others() {
        let node = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "7"},
            "spec": {"taints": [{"key": DUE_TAINT, "effect": "PreferNoSchedule"},
                                {"key": "theirs", "effect": "NoSchedule"}]}});
        let changes = of_node(&serde_json::from_value(node).unwrap());
        let Request::Node { patch, .. } = &changes[0].request else { panic!("{changes:?}") };
        assert_eq!(
            patch["metadata"]["resourceVersion"], "7",
            "the server refuses the patch of another version"
        );
        assert_eq!(patch["spec"]["taints"], json!([{"key": "theirs", "effect": "NoSchedule"}]));
    }

    #[test]
    fn a_released_pod_gets_its_label_and_its_deletion_cost_back() {
        let record =
            json!({"label": {"key": "pod-template-hash", "value": "5f"}, "returning": {"deletionCost": "7"}});
        let pod = json!({"metadata": {"name": "p", "namespace": "shop", "annotations": {
            RELEASED_ANNOTATION: record.to_string(), "evacuation.dev/responders": "[]"}}});
        let change = of_pod(&serde_json::from_value(pod).unwrap()).unwrap();
        let Request::Pod { patch, .. } = change.request else { panic!("{:?}", change.request) };
        assert_eq!(patch["metadata"]["labels"], json!({"pod-template-hash": "5f"}));
        assert_eq!(
            patch["metadata"]["annotations"],
            json!({RELEASED_ANNOTATION: null, DELETION_COST: "7"}),
            "a setting of a person stays"
        );
        let foreign = json!({"label": {"key": "app", "value": "db"}});
        let pod =
            json!({"metadata": {"name": "p", "annotations": {RELEASED_ANNOTATION: foreign.to_string()}}});
        let change = of_pod(&serde_json::from_value(pod).unwrap()).unwrap();
        assert!(change.text.contains("cannot be read"), "{}", change.text);
        let Request::Pod { patch, .. } = change.request else { panic!("{:?}", change.request) };
        assert_eq!(patch["metadata"]["labels"], json!({}), "a label that a tenant chose is not written");
        let plain = json!({"metadata": {"name": "p", "annotations": {"evacuation.dev/responders": "[]"}}});
        assert!(of_pod(&serde_json::from_value(plain).unwrap()).is_none());
    }
}
