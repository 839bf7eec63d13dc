//! The surroundings of pods that are not in a drain yet: their budgets, and the pods that share them.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use evacuation_api::{
    DrainBlocker, Evacuation, EvacuationSpec, NodeEvacuation, PodTarget, Requester, from_condition_time,
};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};

use super::verdict::{DrainedPod, Standing, judge};
use crate::{
    pod::{LivePod, PodPhase, controller},
    requesters::begin,
    responders::selects,
};

/// Name of the entry in an Evacuation that nobody made: it stands for an eviction that is only judged.
pub(super) const PLANNED_ENTRY: &str = "drain.evacuation.dev/plan";
/// Taint of a node whose kubelet does not report.
const UNREACHABLE_TAINT: &str = "node.kubernetes.io/unreachable";

/// PodDisruptionBudgets, and the pods of their namespaces.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The budgets.
    pub budgets: Vec<PodDisruptionBudget>,
    /// The pods of the budgets' namespaces.
    pub pods: Vec<Pod>,
    /// UIDs of the pods that were asked and may have stopped their work.
    pub asked: BTreeSet<String>,
}

impl Surroundings {
    /// Returns the pod as a drain that is that far with it sees it.
    pub fn drained<'a>(
        &'a self,
        pod: &'a Pod,
        standing: Standing<'a>,
        node: Option<&Node>,
    ) -> DrainedPod<'a> {
        let budgets = self.budgets_of(pod);
        let drain = match &standing {
            Standing::Asked(evacuation) => drain_of(evacuation),
            _ => None,
        };
        DrainedPod {
            drain,
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default(),
            unready: self.unready_of(pod, &budgets),
            asked_beside: self.asked_beside(&budgets),
            attach_failures: &[],
            pod,
            standing,
            budgets,
            node_silent_since: node.and_then(silent_since),
            node_deleted: None,
        }
    }

    /// Returns the obstacle that an eviction of the pod would meet now.
    pub fn obstacle(&self, pod: &Pod, node: Option<&Node>, now: DateTime<Utc>) -> Option<DrainBlocker> {
        let asked = ready_to_evict(pod, now);
        judge(&self.drained(pod, Standing::Asked(&asked), node), now).blocker
    }

    /// Returns true when a budget selects a pod.
    pub fn covers(&self, budget: &PodDisruptionBudget, pod: &Pod) -> bool {
        covers(budget, pod)
    }

    /// Returns the budgets that select a pod.
    pub fn budgets_of(&self, pod: &Pod) -> Vec<&PodDisruptionBudget> {
        self.budgets.iter().filter(|budget| covers(budget, pod)).collect()
    }

    /// Returns the name of a pod of the budgets that was asked, the first by name.
    fn asked_beside(&self, budgets: &[&PodDisruptionBudget]) -> Option<&str> {
        let is_asked = |pod: &&Pod| pod.metadata.uid.as_ref().is_some_and(|uid| self.asked.contains(uid));
        let of_budgets = |pod: &&Pod| budgets.iter().any(|budget| covers(budget, pod));
        let asked = self.pods.iter().filter(|pod| is_asked(pod) && of_budgets(pod));
        asked.filter_map(|pod| pod.metadata.name.as_deref()).min()
    }

    /// Returns the pods that the same budgets select, or that have the same controller, and that are neither
    /// ready nor terminating.
    fn unready_of(&self, pod: &Pod, budgets: &[&PodDisruptionBudget]) -> Vec<&Pod> {
        let related = |other: &Pod| {
            (owner(pod).is_some() && owner(pod) == owner(other)) || budgets.iter().any(|b| covers(b, other))
        };
        let unready = |other: &&Pod| {
            let live = LivePod::of(other);
            let waits = !live.ready && live.terminating_until.is_none() && live.phase != PodPhase::Terminal;
            waits && other.metadata.uid != pod.metadata.uid && related(other)
        };
        self.pods.iter().filter(unready).collect()
    }
}

/// Returns the name of the drain that asks, if one does. The controller writes the entry of a drain for its
/// owner. Anybody may write an entry with such a name, but only for themselves.
fn drain_of(evacuation: &Evacuation) -> Option<&str> {
    let recorded = evacuation.status.iter().flat_map(|status| &status.requesters);
    let mut for_others = recorded.filter(|record| record.left_time.is_none() && record.user != record.owner);
    for_others.find_map(|record| NodeEvacuation::name_in_entry(&record.name))
}

fn owner(pod: &Pod) -> Option<&str> {
    controller(pod).map(|owner| owner.uid.as_str())
}

fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let none = BTreeMap::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
    budget.metadata.namespace == pod.metadata.namespace
        && selector.is_some_and(|selector| selects(selector, labels))
}

/// Returns the time since which a node's kubelet does not report; `None` while it reports.
pub fn silent_since(node: &Node) -> Option<DateTime<Utc>> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let unknown = conditions.into_iter().find(|c| c.type_ == "Ready" && c.status == "Unknown");
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let taint = taints.into_iter().find(|taint| taint.key == UNREACHABLE_TAINT);
    if unknown.is_none() && taint.is_none() {
        return None;
    }
    let since = unknown.and_then(|c| c.last_transition_time.as_ref());
    let since = since.or_else(|| taint.and_then(|taint| taint.time_added.as_ref()));
    // Without a time the kubelet has been silent from the start.
    Some(since.map_or(DateTime::<Utc>::MIN_UTC, from_condition_time))
}

/// Returns an Evacuation of the pod whose responders are done, so that only the eviction is left.
fn ready_to_evict(pod: &Pod, now: DateTime<Utc>) -> Evacuation {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let target = PodTarget { name, uid: pod.metadata.uid.clone() };
    let spec = EvacuationSpec::new(target, vec![Requester::named(PLANNED_ENTRY)]);
    let mut evacuation = Evacuation::new("plan", spec);
    let mut status = begin(&evacuation.spec, "", &[], now);
    status.responders = Some(Vec::new());
    evacuation.status = Some(status);
    evacuation
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, ready: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "db"}},
            "spec": {"nodeName": "a", "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    fn budget(namespace: &str, status: &Value) -> PodDisruptionBudget {
        serde_json::from_value(json!({
            "metadata": {"name": "db", "namespace": namespace},
            "spec": {"selector": {"matchLabels": {"app": "db"}}}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn the_obstacle_of_a_pod_is_its_budget() {
        let status = |allowed: i32, healthy: i32, desired: i32| {
            json!({"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired,
                   "expectedPods": 3, "observedGeneration": 0})
        };
        let db = pod("db-0", "True");
        for (budgets, expected) in [
            (vec![], None),
            (vec![budget("shop", &status(1, 3, 2))], None),
            (vec![budget("other", &status(0, 3, 3))], None),
            (vec![budget("shop", &status(0, 3, 3))], Some("BudgetAllowsNone")),
            (vec![budget("shop", &status(0, 2, 2))], Some("BudgetExhausted")),
            (
                vec![budget("shop", &status(1, 3, 2)), budget("shop", &status(1, 3, 2))],
                Some("MultipleBudgets"),
            ),
        ] {
            let surroundings =
                Surroundings { budgets, pods: vec![pod("db-1", "False")], asked: BTreeSet::new() };
            let obstacle = surroundings.obstacle(&db, None, Utc::now());
            assert_eq!(obstacle.map(|blocker| blocker.reason).as_deref(), expected);
        }
    }
}
