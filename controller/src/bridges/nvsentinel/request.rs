//! A DrainRequest: its wishes, the standing of its pods, and its conditions.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use chrono::{DateTime, SecondsFormat, Utc};
use evacuation_api::{
    ConditionType, Evacuation, FailedReason, Requester, from_condition_time, is_dns_subdomain,
};
use evacuation_protocol::{LivePod, PodPhase};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, core::DynamicObject};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    bridges::{
        drains::{Outcome, Progress},
        text::list,
    },
    cluster::{evacuation_of, is_finished, node_name},
};

/// Type of the condition that lets NVSentinel repair the node, such as by a reboot. It reads no other.
const COMPLETE: &str = "DrainComplete";
/// The condition of each outcome. Only that of the present outcome is True.
const CONDITIONS: [(Outcome, &str); 3] =
    [(Outcome::Asking, "DrainInProgress"), (Outcome::Complete, COMPLETE), (Outcome::Failed, "DrainFailed")];

/// Wishes of a DrainRequest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Request {
    /// Name of the node.
    pub(super) node_name: String,
    /// Names of the pods by namespace. `None` asks for all pods of the node.
    pub(super) pods_to_drain: Option<BTreeMap<String, HashSet<String>>>,
}

/// Standing of one pod of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Standing {
    /// The pod is to be asked, by that new or changed Evacuation.
    Unasked(Box<Evacuation>),
    /// The pod was asked, or it terminates. The text tells the cause that holds its eviction back.
    Asked(Option<String>),
    /// The request has ended, and the pod stays.
    LeftAlone(String),
}

impl Request {
    /// Returns the wishes of an object. `None` if they cannot be read.
    pub(super) fn of(object: &DynamicObject) -> Option<Self> {
        let spec = object.data.get("spec")?;
        Self::deserialize(spec).ok().filter(|request| is_dns_subdomain(&request.node_name))
    }

    /// Returns true for a pod on the node that the request lists, and that is not gone. `since` is the
    /// creation of the request: a later pod of the same name is another one.
    pub(super) fn wants(&self, pod: &Pod, since: DateTime<Utc>) -> bool {
        let listed = self.pods_to_drain.as_ref().and_then(|all| all.get(&pod.namespace()?));
        let created = pod.metadata.creation_timestamp.as_ref().map(from_condition_time);
        listed.is_some_and(|names| names.contains(&pod.name_any()))
            && node_name(pod) == Some(self.node_name.as_str())
            && created.is_none_or(|created| created <= since)
            && LivePod::of(pod).phase != PodPhase::Terminal
    }
}

/// Returns the standing of a pod. `evacuations` are those of its name, and `entry` is that of the request.
pub(super) fn standing(pod: &Pod, evacuations: &[Arc<Evacuation>], entry: &Requester) -> Standing {
    let of_pod = || evacuations.iter().filter(|known| known.spec.target.pod.uid == pod.metadata.uid);
    let has_left = |evacuation: &Evacuation| {
        let entries = &evacuation.status.as_ref()?.requesters;
        entries.iter().find(|known| known.key() == entry.key()).map(|known| known.left_time.is_some())
    };
    if pod.metadata.deletion_timestamp.is_some() {
        return Standing::Asked(None);
    }
    if let Some(active) = of_pod().find(|evacuation| !is_finished(evacuation)) {
        let blocked = active.status.as_ref().and_then(|status| status.true_condition(ConditionType::Blocked));
        return if active.spec.requesters.iter().any(|known| known.key() == entry.key()) {
            Standing::Asked(blocked.map(|blocked| blocked.message.clone()))
        } else if has_left(active) == Some(true) {
            Standing::LeftAlone("a user took the request back".to_owned())
        } else {
            let mut next = Evacuation::clone(active);
            next.spec.requesters.push(entry.clone());
            Standing::Unasked(Box::new(next))
        };
    }
    let failed = of_pod().find_map(|evacuation| {
        let reason = evacuation.status.as_ref()?.reason::<FailedReason>()?;
        has_left(evacuation).map(|_| format!("evacuation {}: {reason}", evacuation.name_any()))
    });
    let mut new = evacuation_of(pod, entry);
    new.metadata.namespace = pod.namespace();
    failed.map_or(Standing::Unasked(Box::new(new)), Standing::LeftAlone)
}

/// Returns the conditions of an object with that progress. `None` when they are the same. Conditions of other
/// types stay.
pub(super) fn conditions(
    object: &DynamicObject,
    progress: &Progress,
    now: DateTime<Utc>,
) -> Option<Vec<Value>> {
    let before = list(&object.data, "/status/conditions");
    let mut after = before.to_vec();
    for (outcome, kind) in CONDITIONS {
        let status = if progress.outcome == outcome { "True" } else { "False" };
        let same = before.iter().find(|known| known["type"] == kind && known["status"] == status);
        let since = same.and_then(|same| same.get("lastTransitionTime")).cloned();
        after.retain(|other| other["type"] != kind);
        after.push(json!({
            "type": kind, "status": status, "reason": progress.reason, "message": progress.message,
            "lastTransitionTime": since.unwrap_or(json!(now.to_rfc3339_opts(SecondsFormat::Secs, true))),
        }));
    }
    (after != before).then_some(after)
}

/// Returns true when `DrainComplete` is True.
pub(super) fn is_complete(object: &DynamicObject) -> bool {
    let conditions = list(&object.data, "/status/conditions");
    conditions.iter().any(|known| known["type"] == COMPLETE && known["status"] == "True")
}

#[cfg(test)]
mod tests {
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
        let wanted = |pods: &Value| -> Vec<String> {
            let request = request(pods);
            all.iter().filter(|pod| request.wants(pod, since)).map(|pod| pod.name_any()).collect()
        };
        assert_eq!(wanted(&listed), ["listed"]);
        assert!(wanted(&json!({})).is_empty(), "an empty list asks for nothing");
        assert_eq!(request(&Value::Null).pods_to_drain, None, "no list asks for the whole node");
    }

    #[test]
    fn a_pod_is_asked_once_and_one_that_stays_is_left_alone() {
        let entry = Requester { owner: "us".to_owned(), ..Requester::named("nvsentinel.evacuation.dev/d-1") };
        let name = &entry.name;
        let ours = json!({"owner": "us", "name": name});
        let recorded = json!({"owner": "us", "name": name, "user": "us", "time": "2026-01-01T00:00:00Z"});
        let left = json!({"owner": "us", "name": name, "user": "us", "time": "2026-01-01T00:00:00Z",
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
        let foreign = json!({"owner": "eve", "name": name});
        let ended = |reason| [condition("Failed", reason), condition("Finished", reason)];
        let others = evacuation(&[&foreign], &[], &[]);
        let mut joined = Evacuation::clone(&others[0]);
        joined.spec.requesters.push(entry.clone());
        let mut new = evacuation_of(&pod("p", json!({})), &entry);
        new.metadata.namespace = Some("slurm".to_owned());
        let created = Standing::Unasked(Box::new(new));
        let table = [
            (vec![], created.clone()),
            (evacuation(&[&ours], &[&recorded], &[]), Standing::Asked(None)),
            (
                evacuation(&[&ours], &[&recorded], &[condition("Blocked", "Refused")]),
                Standing::Asked(Some("why".to_owned())),
            ),
            (others.clone(), Standing::Unasked(Box::new(joined))),
            (
                evacuation(&[&foreign], &[&left], &[]),
                Standing::LeftAlone("a user took the request back".to_owned()),
            ),
            (
                evacuation(&[&ours], &[&recorded], &ended("Refused")),
                Standing::LeftAlone("evacuation e: Refused".to_owned()),
            ),
            (evacuation(&[&foreign], &[], &ended("Canceled")), created),
        ];
        for (evacuations, expected) in table {
            assert_eq!(standing(&pod("p", json!({})), &evacuations, &entry), expected, "{evacuations:?}");
        }
        let terminating = pod("p", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        assert_eq!(standing(&terminating, &[], &entry), Standing::Asked(None));
    }

    fn object(conditions: &[Value]) -> DynamicObject {
        let object = json!({"metadata": {"name": "d"}, "status": {"conditions": conditions}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn one_condition_is_true_and_its_time_is_that_of_the_change() {
        let at = |second: i64| DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap();
        let find = |conditions: &[Value], kind: &str| -> Value {
            conditions.iter().find(|known| known["type"] == kind).unwrap().clone()
        };
        let others = json!({"type": "Seen", "status": "True"});
        let running = Progress::new(Outcome::Asking, "Draining", "2 pods");
        let first = conditions(&object(std::slice::from_ref(&others)), &running, at(0)).unwrap();
        assert!(first.contains(&others) && find(&first, "DrainInProgress")["status"] == "True");
        assert!(!is_complete(&object(&first)));
        assert_eq!(conditions(&object(&first), &running, at(5)), None, "nothing changed");
        let done = Progress::new(Outcome::Complete, "DrainComplete", "");
        let second = conditions(&object(&first), &done, at(5)).unwrap();
        assert!(is_complete(&object(&second)) && find(&second, "DrainInProgress")["status"] == "False");
        let time = |conditions: &[Value], kind: &str| find(conditions, kind)["lastTransitionTime"].clone();
        assert_eq!(time(&second, "DrainFailed"), time(&first, "DrainFailed"));
        assert_ne!(time(&second, COMPLETE), time(&first, COMPLETE));
        for outcome in [Outcome::Failed, Outcome::Waiting] {
            let next = conditions(&object(&second), &Progress::new(outcome, "x", ""), at(9)).unwrap();
            assert!(!is_complete(&object(&next)), "{outcome:?}");
        }
    }
}
