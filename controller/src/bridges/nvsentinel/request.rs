//! A DrainRequest: its pods, and the standing of each.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use chrono::{DateTime, Utc};
use evacuation_api::{
    ConditionType, Evacuation, FailedReason, Requester, RequesterKey, WholeSecond, from_condition_time,
    is_dns_subdomain,
};
use evacuation_protocol::{LivePod, PodPhase};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{ResourceExt, core::DynamicObject};
use serde::Deserialize;

use crate::{
    bridges::text::{fitting, unique_name},
    cluster::{is_finished, node_name},
};

/// Beginning of the names of this bridge's entries. The name of the DrainRequest follows.
pub(super) const ENTRY_PREFIX: &str = "nvsentinel.evacuation.dev/";
/// Reason of this bridge's requests.
pub(super) const REASON: &str = "HardwareFault";
/// Annotation of a node that NVSentinel has put into quarantine.
const QUARANTINE: &str = "quarantineHealthEvent";

/// Wishes of a DrainRequest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Request {
    /// Name of the node.
    pub(super) node_name: String,
    /// Names of the pods by namespace. `None` asks for all pods of the node.
    pub(super) pods_to_drain: Option<BTreeMap<String, Vec<String>>>,
    check_name: String,
    reason: String,
}

/// Standing of one pod of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Standing {
    /// No Evacuation of the pod is active.
    Unasked,
    /// An Evacuation without this request is active.
    Joinable(Arc<Evacuation>),
    /// The pod was asked, or it terminates.
    Asked,
    /// The pod was asked, and something holds its eviction back.
    Blocked(String),
    /// The request has ended, and the pod stays.
    LeftAlone(String),
}

impl Request {
    /// Returns the wishes of an object. `None` if they cannot be read.
    pub(super) fn of(object: &DynamicObject) -> Option<Self> {
        let spec = object.data.get("spec")?;
        Self::deserialize(spec).ok().filter(|request| is_dns_subdomain(&request.node_name))
    }

    /// Returns the message of the request, for people.
    pub(super) fn message(&self) -> String {
        fitting(&format!("{}: {}", self.check_name, self.reason))
    }

    /// Returns those of the pods on the node that the request lists, and that are not gone. `since` is the
    /// creation of the request: a later pod of the same name is another one.
    pub(super) fn remaining<'a>(
        &self,
        on_node: impl IntoIterator<Item = &'a Arc<Pod>>,
        since: DateTime<Utc>,
    ) -> Vec<Arc<Pod>> {
        let all = self.pods_to_drain.iter().flatten();
        let listed: HashSet<(&str, &str)> = all
            .flat_map(|(namespace, pods)| pods.iter().map(|pod| (namespace.as_str(), pod.as_str())))
            .collect();
        let counts = |pod: &&Arc<Pod>| {
            let metadata = &pod.metadata;
            let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
            let created = metadata.creation_timestamp.as_ref().map(from_condition_time);
            listed.contains(&(namespace.unwrap_or_default(), name.unwrap_or_default()))
                && node_name(pod) == Some(self.node_name.as_str())
                && created.is_none_or(|created| created <= since)
                && LivePod::of(pod).phase != PodPhase::Terminal
        };
        on_node.into_iter().filter(counts).cloned().collect()
    }
}

/// Returns the entry of a DrainRequest, without an owner: the server fills in the controller's user.
pub(super) fn entry(object: &DynamicObject, request: &Request, deadline: Option<DateTime<Utc>>) -> Requester {
    Requester {
        reason: Some(REASON.to_owned()),
        message: Some(request.message()),
        deadline: deadline.map(WholeSecond::from),
        ..Requester::named(entry_name(object))
    }
}

/// Returns the name of a DrainRequest's entries. It differs from that of any other, also of a later one of
/// the same name.
pub(super) fn entry_name(object: &DynamicObject) -> String {
    format!("{ENTRY_PREFIX}{}", unique_name(object))
}

/// Returns true while NVSentinel keeps a node out of service.
pub(super) fn is_quarantined(node: &Node) -> bool {
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    cordoned || node.annotations().contains_key(QUARANTINE)
}

/// Returns the standing of a pod. `evacuations` are those of its name, and `key` is that of the entry.
pub(super) fn standing(pod: &Pod, evacuations: &[Arc<Evacuation>], key: RequesterKey<'_>) -> Standing {
    let of_pod = || evacuations.iter().filter(|known| known.spec.target.pod.uid == pod.metadata.uid);
    let recorded = |evacuation: &Evacuation| {
        let all = evacuation.status.iter().flat_map(|status| status.requesters.clone());
        all.into_iter().find(|known| known.key() == key)
    };
    if pod.metadata.deletion_timestamp.is_some() {
        return Standing::Asked;
    }
    if let Some(active) = of_pod().find(|evacuation| !is_finished(evacuation)) {
        if !active.spec.requesters.iter().any(|entry| entry.key() == key) {
            let left = recorded(active).is_some_and(|known| known.left_time.is_some());
            let why = || "a user took the request back".to_owned();
            return if left { Standing::LeftAlone(why()) } else { Standing::Joinable(Arc::clone(active)) };
        }
        let blocked = active.status.as_ref().and_then(|status| status.true_condition(ConditionType::Blocked));
        return blocked.map_or(Standing::Asked, |blocked| Standing::Blocked(blocked.message.clone()));
    }
    let failed = of_pod().find_map(|evacuation| {
        let status = evacuation.status.as_ref()?;
        let reason = status.reason::<FailedReason>()?;
        recorded(evacuation).map(|_| format!("evacuation {}: {reason}", evacuation.name_any()))
    });
    failed.map_or(Standing::Unasked, Standing::LeftAlone)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(pods: &Value) -> Request {
        let spec = json!({"nodeName": "gpu-7", "checkName": "Xid", "reason": "79", "podsToDrain": pods});
        Request::of(&serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": spec})).unwrap())
            .unwrap()
    }

    fn pod(name: &str, patch: Value) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": {"namespace": "slurm", "name": name, "uid": format!("{name}-uid"),
                "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "gpu-7", "containers": []},
            "status": {"phase": "Running"},
        });
        json_patch(&mut pod, patch);
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn json_patch(into: &mut Value, patch: Value) {
        match (into, patch) {
            (Value::Object(into), Value::Object(patch)) => {
                for (key, value) in patch {
                    json_patch(into.entry(key).or_insert(Value::Null), value);
                }
            }
            (into, patch) => *into = patch,
        }
    }

    #[test]
    fn only_listed_pods_that_were_on_the_node_count_until_they_are_gone() {
        let all = [
            pod("listed", json!({})),
            pod("another", json!({})),
            pod("elsewhere", json!({"spec": {"nodeName": "gpu-8"}})),
            pod("done", json!({"status": {"phase": "Succeeded"}})),
            pod("successor", json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:02Z"}})),
            pod("namesake", json!({"metadata": {"namespace": "web"}})),
        ];
        let since = DateTime::parse_from_rfc3339("2026-01-01T00:00:01Z").unwrap().to_utc();
        let listed = json!({"slurm": ["listed", "elsewhere", "done", "successor", "namesake", "gone"]});
        let names: Vec<_> =
            request(&listed).remaining(&all, since).iter().map(|pod| pod.name_any()).collect();
        assert_eq!(names, ["listed"]);
        assert!(request(&json!({})).remaining(&all, since).is_empty(), "an empty list asks for nothing");
        assert_eq!(request(&Value::Null).pods_to_drain, None, "no list asks for the whole node");
    }

    #[test]
    fn a_pod_is_asked_once_and_one_that_stays_is_left_alone() {
        let key = RequesterKey { owner: "us", name: "nvsentinel.evacuation.dev/d-1" };
        let ours = json!({"owner": "us", "name": key.name});
        let recorded = json!({"owner": "us", "name": key.name, "user": "us", "time": "2026-01-01T00:00:00Z"});
        let left = json!({"owner": "us", "name": key.name, "user": "us", "time": "2026-01-01T00:00:00Z",
            "leftTime": "2026-01-01T00:00:01Z"});
        let condition = |kind: &str, reason: &str| {
            json!({"type": kind, "status": "True", "reason": reason, "message": "why",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let evacuation = |entries: &[&Value],
                          recorded: &[&Value],
                          conditions: &[Value]|
         -> Vec<Arc<Evacuation>> {
            let target = json!({"pod": {"name": "p", "uid": "p-uid"}});
            let status = json!({"requesters": recorded, "conditions": conditions});
            let object = json!({"metadata": {"name": "e"}, "spec": {"target": target, "requesters": entries},
                "status": status});
            vec![Arc::new(serde_json::from_value(object).unwrap())]
        };
        let foreign = json!({"owner": "eve", "name": key.name});
        let ended = |reason| [condition("Failed", reason), condition("Finished", reason)];
        let others = evacuation(&[&foreign], &[], &[]);
        let table = [
            (vec![], Standing::Unasked),
            (evacuation(&[&ours], &[&recorded], &[]), Standing::Asked),
            (
                evacuation(&[&ours], &[&recorded], &[condition("Blocked", "Refused")]),
                Standing::Blocked("why".to_owned()),
            ),
            (others.clone(), Standing::Joinable(others[0].clone())),
            (
                evacuation(&[&foreign], &[&left], &[]),
                Standing::LeftAlone("a user took the request back".to_owned()),
            ),
            (
                evacuation(&[&ours], &[&recorded], &ended("Refused")),
                Standing::LeftAlone("evacuation e: Refused".to_owned()),
            ),
            (evacuation(&[&foreign], &[], &ended("Canceled")), Standing::Unasked),
        ];
        for (evacuations, expected) in table {
            assert_eq!(standing(&pod("p", json!({})), &evacuations, key), expected, "{evacuations:?}");
        }
        let terminating = pod("p", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        assert_eq!(standing(&terminating, &[], key), Standing::Asked);
    }

    #[test]
    fn a_node_in_service_is_not_in_quarantine() {
        let node = |value: Value| serde_json::from_value::<Node>(value).unwrap();
        assert!(!is_quarantined(&node(json!({"metadata": {"name": "a"}}))));
        assert!(is_quarantined(&node(json!({"metadata": {"name": "a"}, "spec": {"unschedulable": true}}))));
        let annotated = json!({"metadata": {"name": "a", "annotations": {QUARANTINE: "{}"}}});
        assert!(is_quarantined(&node(annotated)));
    }
}
