//! Facts of a node that the gateway's decisions depend on.

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

/// Returns true when a node takes new pods of this kind: it is not cordoned, and the pod tolerates each of
/// its taints that keeps pods away.
///
/// Whoever empties a node marks it so first: `kubectl drain` by a cordon, autoscalers by a taint.
pub(crate) fn takes(node: &Node, pod: &Pod) -> bool {
    let Some(spec) = &node.spec else { return true };
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let keeps_away = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    let mut taints = spec.taints.iter().flatten().filter(keeps_away);
    spec.unschedulable != Some(true)
        && taints.all(|taint| tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

/// Returns true when a toleration matches a taint, as the scheduler does. Its times do not matter.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let same = |given: &Option<String>, wanted: &str| {
        given.as_deref().is_none_or(|given| given.is_empty() || given == wanted)
    };
    let value = toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default();
    same(&toleration.effect, &taint.effect)
        && same(&toleration.key, &taint.key)
        && (toleration.operator.as_deref() == Some("Exists") || value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn is_taken(node: &Value, tolerations: &Value) -> bool {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": node})).unwrap();
        let spec = json!({"containers": [], "tolerations": tolerations});
        takes(&node, &serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap())
    }

    #[test]
    fn a_node_takes_a_pod_unless_it_is_cordoned_or_has_a_taint_that_the_pod_does_not_tolerate() {
        let taint = |effect: &str| json!({"taints": [{"key": "gpu", "value": "a100", "effect": effect}]});
        let any = json!([{"operator": "Exists"}]);
        for (node, tolerations, taken) in [
            (json!({}), json!([]), true),
            (json!({"unschedulable": true}), any.clone(), false),
            (taint("NoSchedule"), json!([]), false),
            (taint("NoExecute"), json!([]), false),
            (taint("PreferNoSchedule"), json!([]), true),
            (taint("NoSchedule"), any, true),
            (taint("NoSchedule"), json!([{"key": "gpu", "operator": "Exists"}]), true),
            (taint("NoSchedule"), json!([{"key": "gpu", "value": "a100", "effect": "NoSchedule"}]), true),
            (taint("NoSchedule"), json!([{"key": "gpu", "value": "b200"}]), false),
            (
                taint("NoSchedule"),
                json!([{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]),
                false,
            ),
        ] {
            assert_eq!(is_taken(&node, &tolerations), taken, "{node} {tolerations}");
        }
    }
}
