//! Pods that go although their drain was canceled.

use std::collections::BTreeMap;

use evacuation_api::{ConditionType, DrainedNode, Evacuation};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::ListParams};

use crate::plain::full_name;

/// Maximum number of pods that are named.
const NAMED: usize = 10;

/// Reads the pods on these nodes that terminate. A node whose pods cannot be listed has none.
pub(super) async fn terminating(client: &Client, nodes: &[DrainedNode]) -> Vec<Pod> {
    let mut found = Vec::new();
    for node in nodes {
        let on_node = ListParams::default().fields(&format!("spec.nodeName={}", node.name));
        let pods = Api::<Pod>::all(client.clone()).list(&on_node).await;
        let pods = pods.map(|pods| pods.items).unwrap_or_default();
        found.extend(pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()));
    }
    found
}

/// Returns the pods that go all the same in words. `kept` are the Evacuations that were not taken back.
pub(super) fn departing(kept: &[&Evacuation], terminating: &[Pod]) -> Option<String> {
    let of_evacuation = |evacuation: &&Evacuation| {
        let gone = evacuation.status.as_ref().is_some_and(|status| status.is_true(ConditionType::Evacuated));
        let why = if gone { "it was evicted" } else { "its eviction was accepted" };
        let namespace = evacuation.namespace().unwrap_or_default();
        (format!("{namespace}/{}", evacuation.spec.target.pod.name), why)
    };
    let mut all: BTreeMap<String, &str> =
        terminating.iter().map(|pod| (full_name(pod), "it terminates")).collect();
    all.extend(kept.iter().map(of_evacuation));
    let named = all.iter().take(NAMED).map(|(pod, why)| format!("pod/{pod} ({why})"));
    let named = named.collect::<Vec<_>>().join(" and ");
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!all.is_empty()).then(|| format!("going all the same: {named}{more}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_pod_that_goes_is_named_once_with_its_reason() {
        let pod = |name: &str| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": name, "namespace": "shop"}})).unwrap()
        };
        let evacuation = |pod: &str, conditions: serde_json::Value| -> Evacuation {
            serde_json::from_value(json!({
                "metadata": {"name": pod, "namespace": "shop"}, "spec": {"target": {"pod": {"name": pod}}},
                "status": {"conditions": conditions},
            }))
            .unwrap()
        };
        let evacuated = json!([{"type": "Evacuated", "status": "True", "reason": "Evicted", "message": "",
                                "lastTransitionTime": "2026-11-20T22:00:00Z"}]);
        let (accepted, moved) = (evacuation("a", json!([])), evacuation("b", evacuated));
        let text = departing(&[&accepted, &moved], &[pod("a"), pod("c")]).unwrap();
        let expected = "going all the same: pod/shop/a (its eviction was accepted) and pod/shop/b (it was evicted) \
                        and pod/shop/c (it terminates)";
        assert_eq!(text, expected);
        let many: Vec<Pod> = (10..22).map(|number| pod(&number.to_string())).collect();
        assert!(departing(&[], &many).unwrap().ends_with(" and 2 more"));
        assert_eq!(departing(&[], &[]), None);
    }
}
