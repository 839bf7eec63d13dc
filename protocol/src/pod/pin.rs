//! Pods that their controller pins to their node, as a DaemonSet does.
//!
//! Kubernetes' DaemonSet controller gives each pod a required node affinity with `matchFields` on
//! `metadata.name`, and a toleration of the cordon. Its copies do the same, such as the Advanced DaemonSet of
//! OpenKruise under a kind of its own, or the controller of a network or storage agent. Such a pod comes back
//! to its node whatever a drain does. Source: `ReplaceDaemonSetPodNodeNameNodeAffinity` and
//! `AddOrUpdateDaemonPodTolerations` of `k8s.io/kubernetes/pkg/controller/daemon/util`.

use k8s_openapi::{
    api::core::v1::{
        Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec,
        Toleration,
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};

use super::controller;

/// Taint of a node that is cordoned.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Field of a node that the pins of a controller name.
const NODE_NAME: &str = "metadata.name";
/// Kinds of controllers, of any API group, that place their pods on any node. A pin in their template is the
/// choice of one workload: its pods are asked, and an owner whose pods come back is named.
const OF_ANY_NODE: [&str; 4] = ["Job", "ReplicaSet", "ReplicationController", "StatefulSet"];

/// Returns the controller of a pod that it pins to the pod's node, and lets tolerate the cordon. Kinds that
/// place their pods on any node are left out.
pub(super) fn pinning(pod: &Pod) -> Option<&OwnerReference> {
    let owner = controller(pod).filter(|owner| !OF_ANY_NODE.contains(&owner.kind.as_str()))?;
    pod.spec.as_ref().is_some_and(|spec| is_pinned(spec) && has_toleration(spec)).then_some(owner)
}

/// Returns true for a pod that the scheduler puts on a cordoned node, too. Those of a DaemonSet are.
pub(crate) fn tolerates_cordon(pod: &Pod) -> bool {
    is_of_daemon_set(pod) || pod.spec.as_ref().is_some_and(has_toleration)
}

/// Drops the affinity and the tolerations of a pod. As much stays as shows that it tolerates the cordon, and
/// that a controller of another kind pins it to its node, as a DaemonSet does. Pods of a DaemonSet, of which
/// each node has many, need neither.
pub fn keep_pin(pod: &mut Pod) {
    let is_of_daemon_set = is_of_daemon_set(pod);
    let owner = pinning(pod).filter(|_| !is_of_daemon_set);
    let node = owner.and_then(|_| pod.spec.as_ref()?.node_name.clone());
    let Some(spec) = &mut pod.spec else { return };
    let tolerates = !is_of_daemon_set && has_toleration(spec);
    spec.affinity = node.map(pin);
    spec.tolerations = tolerates.then(|| {
        let cordon = Toleration {
            key: Some(UNSCHEDULABLE.to_owned()),
            operator: Some("Exists".to_owned()),
            ..Toleration::default()
        };
        vec![cordon]
    });
}

/// Returns true when a pod's required node affinity allows its own node alone, by the node's name. A label,
/// such as the hostname, can be on other nodes, too. One of several terms suffices to allow a node.
fn is_pinned(spec: &PodSpec) -> bool {
    let own = spec.node_name.as_deref().filter(|name| !name.is_empty());
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    let names_own = |field: &NodeSelectorRequirement| {
        let values = field.values.as_deref().unwrap_or_default();
        field.key == NODE_NAME
            && field.operator == "In"
            && !values.is_empty()
            && values.iter().all(|value| Some(value.as_str()) == own)
    };
    let is_own = |term: &NodeSelectorTerm| term.match_fields.iter().flatten().any(names_own);
    required.is_some_and(|required| {
        let terms = &required.node_selector_terms;
        !terms.is_empty() && terms.iter().all(is_own)
    })
}

fn is_of_daemon_set(pod: &Pod) -> bool {
    controller(pod).is_some_and(|owner| owner.kind == "DaemonSet")
}

fn has_toleration(spec: &PodSpec) -> bool {
    spec.tolerations.iter().flatten().any(is_of_cordon)
}

/// Returns true for a toleration that lets a pod be scheduled on a cordoned node.
fn is_of_cordon(toleration: &Toleration) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let value = toleration.value.as_deref().unwrap_or_default();
    let matches = match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => key.is_empty() || key == UNSCHEDULABLE,
        // The taint has no value.
        "" | "Equal" => key == UNSCHEDULABLE && value.is_empty(),
        _ => false,
    };
    matches && matches!(toleration.effect.as_deref().unwrap_or_default(), "" | "NoSchedule")
}

/// Returns the affinity of a pod that is pinned to a node.
fn pin(node: String) -> Affinity {
    let field = NodeSelectorRequirement {
        key: NODE_NAME.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![field]), ..NodeSelectorTerm::default() };
    let node_affinity = NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector {
            node_selector_terms: vec![term],
        }),
        ..NodeAffinity::default()
    };
    Affinity { node_affinity: Some(node_affinity), ..Affinity::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::daemon_set;

    fn term(names: &[&str]) -> Value {
        json!({"matchFields": [{"key": NODE_NAME, "operator": "In", "values": names}]})
    }

    /// A pod on node `a` of a controller of that kind.
    fn pod(kind: &str, terms: &[Value], toleration: &Value) -> Pod {
        let owner =
            json!({"apiVersion": "acme.io/v1", "kind": kind, "name": "o", "uid": "1", "controller": true});
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "ns", "ownerReferences": [owner]},
            "spec": {"containers": [], "nodeName": "a", "tolerations": [toleration]},
        });
        if !terms.is_empty() {
            pod["spec"]["affinity"] = json!({"nodeAffinity": required});
        }
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn a_pod_counts_as_of_a_daemon_set_only_when_it_comes_back_to_its_node_whatever_is_done() {
        let own = || vec![term(&["a"])];
        let cordon = json!({"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"});
        let label = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]});
        let hostname = json!({"matchExpressions": [label]});
        let mut narrowed = term(&["a"]);
        narrowed["matchExpressions"] = hostname["matchExpressions"].clone();
        let not_in = json!({"matchFields": [{"key": NODE_NAME, "operator": "NotIn", "values": ["a"]}]});
        let on_agent = |terms: Vec<Value>, toleration: Value| pod("Agent", &terms, &toleration);
        let mut unowned = pod("Agent", &own(), &cordon);
        unowned.metadata.owner_references = None;
        let mut unscheduled = pod("Agent", &own(), &cordon);
        unscheduled.spec.as_mut().unwrap().node_name = None;
        let table = vec![
            ("pinned, and tolerates the cordon", on_agent(own(), cordon.clone()), true),
            ("a pin that is narrower still", on_agent(vec![narrowed], cordon.clone()), true),
            ("tolerates every taint", on_agent(own(), json!({"operator": "Exists"})), true),
            ("an equal value", on_agent(own(), json!({"key": UNSCHEDULABLE, "operator": "Equal"})), true),
            ("no operator", on_agent(own(), json!({"key": UNSCHEDULABLE})), true),
            ("the toleration alone", on_agent(vec![], cordon.clone()), false),
            ("the pin alone", on_agent(own(), json!({"key": "acme.io/x", "operator": "Exists"})), false),
            (
                "tolerates only a later eviction",
                on_agent(own(), json!({"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoExecute"})),
                false,
            ),
            ("another value", on_agent(own(), json!({"key": UNSCHEDULABLE, "value": "x"})), false),
            ("a pin to two nodes", on_agent(vec![term(&["a"]), term(&["b"])], cordon.clone()), false),
            ("a pin to two nodes in one term", on_agent(vec![term(&["a", "b"])], cordon.clone()), false),
            ("a pin or a label", on_agent(vec![term(&["a"]), hostname.clone()], cordon.clone()), false),
            ("a pin to another node", on_agent(vec![term(&["b"])], cordon.clone()), false),
            ("a pin by the hostname label", on_agent(vec![hostname], cordon.clone()), false),
            ("a pin away from its node", on_agent(vec![not_in], cordon.clone()), false),
            ("no controller", unowned, false),
            ("not scheduled", unscheduled, false),
            ("of a StatefulSet", pod("StatefulSet", &own(), &cordon), false),
            ("of a ReplicaSet", pod("ReplicaSet", &own(), &cordon), false),
            ("of a ReplicationController", pod("ReplicationController", &own(), &cordon), false),
            ("of a Job", pod("Job", &own(), &cordon), false),
            ("of a kind DaemonSet", pod("DaemonSet", &own(), &cordon), true),
            ("of a kind DaemonSet, without a pin", pod("DaemonSet", &[], &json!({})), true),
        ];
        for (what, mut pod, expected) in table {
            assert_eq!(daemon_set(&pod).is_some(), expected, "{what}");
            let tolerates = tolerates_cordon(&pod);
            keep_pin(&mut pod);
            assert_eq!(daemon_set(&pod).is_some(), expected, "{what}: of what is kept");
            assert_eq!(tolerates_cordon(&pod), tolerates, "{what}: of what is kept");
            let spec = pod.spec.as_ref().unwrap();
            let known = what.contains("of a kind DaemonSet");
            assert_eq!(spec.affinity.is_some(), expected && !known, "{what}");
            let kept = spec.tolerations.as_ref().map_or(0, Vec::len);
            assert_eq!(kept, usize::from(tolerates && !known), "{what}");
        }
    }
}
