//! Release of a pod from its ReplicaSet: the label, or the obstacle.

use std::collections::BTreeMap;

use evacuation_protocol::selects;
use k8s_openapi::{
    api::{
        apps::v1::ReplicaSet,
        core::v1::{Pod, Service},
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference},
};

use super::record::Label;

/// Label by which the ReplicaSets of one Deployment differ. Nothing else is meant to use it.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Reason for which no replacement can be made beside a pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Obstacle {
    /// No controller recreates it.
    #[error("no controller recreates the pod")]
    NoController,
    /// A StatefulSet recreates it under the same name.
    #[error(
        "StatefulSet {0} recreates the pod under the same name and with the same volumes, so only after it is gone"
    )]
    StatefulSet(String),
    /// Another controller recreates it, in a way of its own.
    #[error("only a ReplicaSet makes a replacement beside its pod, and the pod belongs to {kind} {name}")]
    OtherController {
        /// The controller's kind.
        kind: String,
        /// The controller's name.
        name: String,
    },
    /// Its owner wants no two pods at once.
    #[error("no second pod may run beside it, because {0}")]
    Alone(String),
    /// The ReplicaSet is gone or being deleted.
    #[error("ReplicaSet {0} is gone or being deleted")]
    Gone(String),
    /// The ReplicaSet does not select by the label that nothing else is meant to use. Another label can be
    /// one by which a NetworkPolicy lets the pod's traffic pass.
    #[error(
        "ReplicaSet {0} does not select its pods by the label pod-template-hash, as that of a Deployment does"
    )]
    NoTemplateHash(String),
    /// Another object selects the pod by the label.
    #[error(
        "the label pod-template-hash, by which ReplicaSet {name} would release the pod, is in use by {user}"
    )]
    LabelInUse {
        /// The ReplicaSet's name.
        name: String,
        /// The object that selects by the label.
        user: String,
    },
    /// The pod carries a record that the responder did not write.
    #[error("the pod's annotation surge.evacuation.dev/released cannot be read")]
    UnreadableRecord,
}

/// An object that selects pods by labels besides the ReplicaSet: a Service or a PodDisruptionBudget.
pub(super) struct Selecting {
    /// Kind and name, such as `Service web`.
    pub(super) object: String,
    /// Selector of the object.
    pub(super) selector: LabelSelector,
}

impl Selecting {
    /// Returns a Service, if it selects pods.
    pub(super) fn service(service: &Service) -> Option<Self> {
        let labels = service.spec.as_ref()?.selector.clone()?;
        if labels.is_empty() {
            return None;
        }
        Some(Self {
            object: format!("Service {}", service.metadata.name.as_deref().unwrap_or_default()),
            selector: LabelSelector { match_labels: Some(labels), ..LabelSelector::default() },
        })
    }
}

/// Returns the ReplicaSet that a pod is to be released from.
pub(super) fn owner(pod: &Pod, controller: Option<&OwnerReference>) -> Result<OwnerReference, Obstacle> {
    if super::record::is_released(pod) {
        return Err(Obstacle::UnreadableRecord);
    }
    let owner = controller.ok_or(Obstacle::NoController)?;
    match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("apps/v1", "ReplicaSet") => Ok(owner.clone()),
        ("apps/v1", "StatefulSet") => Err(Obstacle::StatefulSet(owner.name.clone())),
        (_, kind) => Err(Obstacle::OtherController { kind: kind.to_owned(), name: owner.name.clone() }),
    }
}

/// Returns the label `pod-template-hash` of a pod, if its removal hides the pod from its ReplicaSet and from
/// nothing else.
pub(super) fn label(pod: &Pod, replica_set: &ReplicaSet, others: &[Selecting]) -> Result<Label, Obstacle> {
    let name = replica_set.metadata.name.clone().unwrap_or_default();
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    let rest = without(&labels, TEMPLATE_HASH);
    let Some(value) = labels.get(TEMPLATE_HASH).filter(|_| !selects(&replica_set.spec.selector, &rest))
    else {
        return Err(Obstacle::NoTemplateHash(name));
    };
    let user =
        others.iter().find(|other| selects(&other.selector, &labels) != selects(&other.selector, &rest));
    match user {
        None => Ok(Label { key: TEMPLATE_HASH.to_owned(), value: value.clone() }),
        Some(user) => Err(Obstacle::LabelInUse { name, user: user.object.clone() }),
    }
}

fn without(labels: &BTreeMap<String, String>, key: &str) -> BTreeMap<String, String> {
    let mut rest = labels.clone();
    rest.remove(key);
    rest
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(labels: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "labels": labels}})).unwrap()
    }

    fn replica_set(selector: &Value) -> ReplicaSet {
        serde_json::from_value(json!({"metadata": {"name": "web-1"}, "spec": {"selector": selector}}))
            .unwrap()
    }

    fn service(name: &str, selector: &Value) -> Option<Selecting> {
        let service = json!({"metadata": {"name": name}, "spec": {"selector": selector}});
        Selecting::service(&serde_json::from_value(service).unwrap())
    }

    fn budget(selector: &Value) -> Selecting {
        Selecting {
            object: "PodDisruptionBudget b".to_owned(),
            selector: serde_json::from_value(selector.clone()).unwrap(),
        }
    }

    fn found(pod: &Pod, set: &ReplicaSet, others: Vec<Option<Selecting>>) -> String {
        let others: Vec<Selecting> = others.into_iter().flatten().collect();
        match label(pod, set, &others) {
            Ok(label) => format!("{}={}", label.key, label.value),
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn the_label_that_is_taken_hides_the_pod_from_its_replica_set_alone() {
        let web = pod(&json!({"app": "web", "tier": "front", "pod-template-hash": "1"}));
        let of_deployment = replica_set(&json!({"matchLabels": {"app": "web", "pod-template-hash": "1"}}));
        let exists = json!({"matchExpressions": [{"key": "pod-template-hash", "operator": "Exists"}]});
        let absent = json!({"matchExpressions": [{"key": "pod-template-hash", "operator": "DoesNotExist"}]});
        let in_use = |by: &str| {
            format!(
                "the label pod-template-hash, by which ReplicaSet web-1 would release the pod, is in use by {by}"
            )
        };
        let taken = || "pod-template-hash=1".to_owned();
        let table = [
            (vec![service("web", &json!({"app": "web"}))], taken()),
            (vec![service("all", &Value::Null), service("none", &json!({}))], taken()),
            (vec![Some(budget(&json!({"matchLabels": {"app": "web"}})))], taken()),
            (vec![service("else", &json!({"app": "other", "pod-template-hash": "1"}))], taken()),
            (vec![service("one", &json!({"pod-template-hash": "1"}))], in_use("Service one")),
            (vec![Some(budget(&exists))], in_use("PodDisruptionBudget b")),
            (vec![Some(budget(&absent))], in_use("PodDisruptionBudget b")),
        ];
        for (others, expected) in table {
            assert_eq!(found(&web, &of_deployment, others), expected);
        }
    }

    #[test]
    fn no_other_label_is_taken_for_a_network_policy_may_select_by_it() {
        let web = pod(&json!({"app": "web", "tier": "front", "pod-template-hash": "1"}));
        for selector in [
            json!({"matchLabels": {"app": "web", "tier": "front"}}),
            json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front"]}]}),
        ] {
            let expected = "ReplicaSet web-1 does not select its pods by the label pod-template-hash, as that of a Deployment does";
            assert_eq!(found(&web, &replica_set(&selector), vec![]), expected);
        }
    }

    #[test]
    fn only_a_replica_set_can_make_a_replacement_beside_its_pod() {
        let owned = |version: &str, kind: &str| {
            let owner = OwnerReference {
                api_version: version.to_owned(),
                kind: kind.to_owned(),
                name: "o".to_owned(),
                ..OwnerReference::default()
            };
            super::owner(&pod(&json!({})), Some(&owner)).map(|owner| owner.name)
        };
        assert_eq!(owned("apps/v1", "ReplicaSet"), Ok("o".to_owned()));
        assert_eq!(owned("apps/v1", "StatefulSet"), Err(Obstacle::StatefulSet("o".to_owned())));
        for (version, kind) in [("apps/v1", "DaemonSet"), ("batch/v1", "Job"), ("acme.io/v1", "ReplicaSet")] {
            let (kind, name) = (kind.to_owned(), "o".to_owned());
            assert_eq!(owned(version, &kind.clone()), Err(Obstacle::OtherController { kind, name }));
        }
        assert_eq!(super::owner(&pod(&json!({})), None), Err(Obstacle::NoController));
    }
}
