//! Facts of a pod that the gateway's decisions depend on.

use evacuation_api::POD_ANNOTATIONS;
use evacuation_protocol::LABELS_CUT;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};

use crate::owner::controller_of;

/// Annotation that marks a pod as the mirror of a static one.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";
/// Maximum number of labels that are kept of a pod. One that has more gets the label [`LABELS_CUT`].
const LABELS: usize = 64;
/// Type of the condition that a controller sets before it deletes a pod.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// The state of a pod that a review shows. The gateway takes nothing else of the pod from the review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown<'a> {
    pub(crate) uid: &'a str,
    pub(crate) resource_version: &'a str,
}

impl Shown<'_> {
    /// Returns true when this is that very state of that very pod.
    pub(crate) fn is(self, pod: &Pod) -> bool {
        pod.metadata.uid.as_deref() == Some(self.uid)
            && pod.metadata.resource_version.as_deref() == Some(self.resource_version)
    }
}

/// Returns the kind of the pod's controller, such as `ReplicaSet`.
pub(crate) fn owner_kind(pod: &Pod) -> Option<&str> {
    controller_of(&pod.metadata).map(|owner| owner.kind.as_str())
}

/// Returns the name of the pod's node, once the pod is scheduled.
pub(crate) fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|node| !node.is_empty())
}

/// Returns the reason of the condition DisruptionTarget, such as `DeletionByTaintManager`.
pub(crate) fn disruption_reason(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let target = conditions.iter().find(|c| c.type_ == DISRUPTION_TARGET && c.status == "True")?;
    target.reason.as_deref()
}

/// Returns true for the mirror of a static pod, which only its kubelet ends.
pub(crate) fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(MIRROR_ANNOTATION))
}

/// Returns the pod's own grace period, in seconds.
pub(crate) fn own_grace(pod: &Pod) -> Option<i64> {
    pod.spec.as_ref()?.termination_grace_period_seconds
}

/// Returns the grace period that the caller chose: one that is not the pod's own.
///
/// In a deletion the kube-apiserver fills in the pod's own grace period, or 0 for a pod without a node.
pub(crate) fn chosen_grace(pod: &Pod, given: Option<i64>) -> Option<i64> {
    given.filter(|given| Some(*given) != own_grace(pod) && (node_name(pod).is_some() || *given != 0))
}

/// Drops the parts of a pod that the gateway does not read, so that tens of thousands of pods fit into
/// memory.
pub(crate) fn prune(pod: &mut Pod) {
    pod.metadata.managed_fields = None;
    pod.metadata.finalizers = None;
    pod.metadata.generate_name = None;
    if let Some(annotations) = &mut pod.metadata.annotations {
        annotations.retain(|name, _| name == MIRROR_ANNOTATION || POD_ANNOTATIONS.contains(&name.as_str()));
    }
    if let Some(labels) = pod.metadata.labels.as_mut().filter(|labels| labels.len() > LABELS) {
        let mut left = LABELS;
        labels.retain(|_, _| {
            let is_kept = left > 0;
            left = left.saturating_sub(1);
            is_kept
        });
        labels.insert(LABELS_CUT.to_owned(), String::new());
    }
    if let Some(owners) = &mut pod.metadata.owner_references {
        owners.retain(|owner| owner.controller == Some(true));
        owners.truncate(1);
        owners.shrink_to_fit();
    }
    if let Some(spec) = pod.spec.take() {
        pod.spec = Some(PodSpec {
            eviction_responders: spec.eviction_responders,
            node_name: spec.node_name,
            scheduling_group: spec.scheduling_group,
            termination_grace_period_seconds: spec.termination_grace_period_seconds,
            ..PodSpec::default()
        });
    }
    if let Some(status) = pod.status.take() {
        let conditions = status.conditions.into_iter().flatten().filter(|c| c.type_ == DISRUPTION_TARGET);
        pod.status = Some(PodStatus {
            conditions: Some(conditions.collect()),
            phase: status.phase,
            ..PodStatus::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(node: Option<&str>, grace: i64) -> Pod {
        let spec = json!({"nodeName": node, "terminationGracePeriodSeconds": grace, "containers": []});
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    #[test]
    fn only_a_grace_period_other_than_the_pods_own_was_chosen_by_the_caller() {
        let table = [
            (Some("node"), 30, None, None),
            (Some("node"), 30, Some(30), None),
            (Some("node"), 30, Some(5), Some(5)),
            (Some("node"), 30, Some(0), Some(0)),
            (Some("node"), 0, Some(0), None),
            // The kube-apiserver fills in 0 for a pod without a node.
            (None, 30, Some(0), None),
            (None, 30, Some(5), Some(5)),
        ];
        for (node, own, given, chosen) in table {
            assert_eq!(chosen_grace(&pod(node, own), given), chosen, "{node:?} {own} {given:?}");
        }
    }

    #[test]
    fn a_cached_pod_is_current_only_in_the_state_that_the_review_shows() {
        let mut pod = pod(None, 30);
        pod.metadata.uid = Some("1".to_owned());
        pod.metadata.resource_version = Some("7".to_owned());
        let is = |uid, resource_version| Shown { uid, resource_version }.is(&pod);
        assert!(is("1", "7") && !is("1", "8") && !is("2", "7") && !is("", ""));
    }

    #[test]
    fn a_pruned_pod_keeps_its_registration_and_the_reason_of_its_disruption() {
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "p",
                "annotations": {"evacuation.dev/responders": "[]", "acme.io/big": "x"},
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1", "controller": true},
                ],
            },
            "spec": {"nodeName": "n", "containers": [{"name": "app", "image": "app"}]},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"},
            ]},
        }))
        .unwrap();
        prune(&mut pod);
        assert_eq!(owner_kind(&pod), Some("ReplicaSet"));
        assert_eq!(disruption_reason(&pod), Some("DeletionByTaintManager"));
        let annotations = pod.metadata.annotations.unwrap();
        assert_eq!(annotations.keys().collect::<Vec<_>>(), ["evacuation.dev/responders"]);
        assert!(pod.spec.unwrap().containers.is_empty());
    }

    /// # Attack
    ///
    /// - Attacker: a tenant who may annotate and label pods
    /// - Act: adds so many annotations and labels to a pod that its registration does not fit into the cache
    /// - Promise: 11, 12
    #[test]
    fn a_registration_is_kept_among_any_number_of_annotations_and_a_pod_that_lost_labels_says_so() {
        let own = (0..100).map(|n| (format!("a.evacuation.dev/{n:03}"), json!("")));
        let mut annotations: serde_json::Map<_, _> = own.collect();
        annotations.insert("evacuation.dev/responders".to_owned(), json!("[]"));
        let labels: serde_json::Map<_, _> = (0..100).map(|n| (format!("{n:03}"), json!(""))).collect();
        let metadata = json!({"name": "p", "annotations": annotations, "labels": labels});
        let mut pod: Pod = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        prune(&mut pod);
        let labels = pod.metadata.labels.unwrap();
        assert_eq!((labels.len(), labels.contains_key(LABELS_CUT)), (LABELS + 1, true));
        let kept = pod.metadata.annotations.unwrap();
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["evacuation.dev/responders"]);
    }
}
