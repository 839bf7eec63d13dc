//! The surroundings of pods that are not in a drain yet: their budgets, and the pods that share them.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use evacuation_api::{
    CordonPolicy, DrainBlocker, Evacuation, EvacuationSpec, NodeEvacuation, PodTarget, Requester,
};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};

use super::verdict::{DrainedPod, Standing, judge};
use crate::{
    pod::{LivePod, PodPhase, controller},
    requesters::begin,
    responders::PackedSelector,
    time::told,
};

/// Name of the entry in an Evacuation that nobody made: it stands for an eviction that is only judged.
pub(super) const PLANNED_ENTRY: &str = "drain.evacuation.dev/plan";
/// Taint of a node whose kubelet does not report.
const UNREACHABLE_TAINT: &str = "node.kubernetes.io/unreachable";

/// PodDisruptionBudgets, and the pods of their namespaces.
///
/// # Guarantees
///
/// The selector of each budget is read once, whatever the number of pods. A comparison of two pods costs the
/// same whatever their budgets select by.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    budgets: Vec<KnownBudget>,
    pods: Vec<Pod>,
    /// UIDs of the pods that were asked and may have stopped their work.
    pub asked: BTreeSet<String>,
    /// Namespaces whose pods were not read.
    pub unread: BTreeSet<String>,
}

/// A budget, with its selector in a form that is cheap to compare.
#[derive(Clone, Debug)]
struct KnownBudget {
    budget: PodDisruptionBudget,
    /// `None` for a selector that selects nothing.
    selector: Option<PackedSelector>,
    /// The places of the unready pods that it selects, in ascending order.
    unready: Vec<usize>,
}

impl KnownBudget {
    fn of(budget: PodDisruptionBudget, pods: &[Pod]) -> Self {
        let selector = budget.spec.as_ref().and_then(|spec| PackedSelector::of(spec.selector.as_ref()?));
        let mut known = Self { budget, selector, unready: Vec::new() };
        let unready = |(place, pod): (usize, &Pod)| {
            (known.selects(pod) && Surroundings::is_unready(pod)).then_some(place)
        };
        known.unready = pods.iter().enumerate().filter_map(unready).collect();
        known
    }

    fn selects(&self, pod: &Pod) -> bool {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&NONE);
        self.budget.metadata.namespace == pod.metadata.namespace
            && self.selector.as_ref().is_some_and(|selector| selector.selects(labels))
    }
}

impl Surroundings {
    /// Returns the surroundings with these budgets, and the pods of the budgets' namespaces, of which no pod
    /// was asked. Of these only the unready ones count, and those that are recorded as asked later.
    pub fn new(budgets: Vec<PodDisruptionBudget>, pods: Vec<Pod>) -> Self {
        let budgets = budgets.into_iter().map(|budget| KnownBudget::of(budget, &pods)).collect();
        Self { budgets, pods, ..Self::default() }
    }

    /// Returns true for a pod that budgets do not count as healthy, and for whose readiness or end others can
    /// wait: it is not ready and has not ended, or it terminates.
    pub fn is_unready(pod: &Pod) -> bool {
        let live = LivePod::of(pod);
        live.terminating_until.is_some() || (!live.ready && live.phase != PodPhase::Terminal)
    }

    /// Returns the pod as a drain that is that far with it sees it.
    pub fn drained<'a>(
        &'a self,
        pod: &'a Pod,
        standing: Standing<'a>,
        node: Option<&Node>,
    ) -> DrainedPod<'a> {
        let selecting: Vec<&KnownBudget> = self.budgets.iter().filter(|known| known.selects(pod)).collect();
        let drain = match &standing {
            Standing::Asked(evacuation) => drain_of(evacuation),
            _ => None,
        };
        DrainedPod {
            drain,
            selects_all: false,
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default(),
            cordon: CordonPolicy::default(),
            unready: self.unready_of(pod, &selecting),
            asked_beside: self.asked_beside(&selecting),
            attach_failures: &[],
            pod,
            standing,
            budgets: selecting.iter().map(|known| &known.budget).collect(),
            node_silent_since: node.and_then(silent_since),
            node_deleted: None,
        }
    }

    /// Returns the obstacle that an eviction of the pod would meet now.
    pub fn obstacle(&self, pod: &Pod, node: Option<&Node>, now: DateTime<Utc>) -> Option<DrainBlocker> {
        let asked = ready_to_evict(pod, now);
        judge(&self.drained(pod, Standing::Asked(&asked), node), now).blocker
    }

    /// Returns each budget, with the number of these pods that it selects.
    pub(super) fn selected(&self, pods: &[&Pod]) -> impl Iterator<Item = (&PodDisruptionBudget, usize)> {
        self.budgets
            .iter()
            .map(move |known| (&known.budget, pods.iter().filter(|pod| known.selects(pod)).count()))
    }

    /// Returns the name of a pod of the budgets that was asked, the first by name.
    fn asked_beside(&self, budgets: &[&KnownBudget]) -> Option<&str> {
        let is_asked = |pod: &&Pod| pod.metadata.uid.as_ref().is_some_and(|uid| self.asked.contains(uid));
        let of_budgets = |pod: &&Pod| budgets.iter().any(|known| known.selects(pod));
        let asked = self.pods.iter().filter(|pod| is_asked(pod) && of_budgets(pod));
        asked.filter_map(|pod| pod.metadata.name.as_deref()).min()
    }

    /// Returns the unready pods that the same budget selects, or that have the same controller. `None` if
    /// they were not read, and for a pod of several budgets, or of none: it waits for no other pod.
    fn unready_of(&self, pod: &Pod, budgets: &[&KnownBudget]) -> Option<Vec<&Pod>> {
        let [known] = budgets else { return None };
        if pod.metadata.namespace.as_ref().is_some_and(|namespace| self.unread.contains(namespace)) {
            return None;
        }
        let uid = owner(pod);
        let related = |place: usize, other: &Pod| {
            known.unready.binary_search(&place).is_ok()
                || (uid.is_some() && uid == owner(other) && Self::is_unready(other))
        };
        let others = self.pods.iter().enumerate();
        let unready =
            others.filter(|(place, other)| other.metadata.uid != pod.metadata.uid && related(*place, other));
        Some(unready.map(|(_, other)| other).collect())
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

/// Returns the time since which a node's kubelet does not report; `None` while it reports.
pub fn silent_since(node: &Node) -> Option<DateTime<Utc>> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let unknown = conditions.into_iter().find(|c| c.type_ == "Ready" && c.status == "Unknown");
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let taint = taints.into_iter().find(|taint| taint.key == UNREACHABLE_TAINT);
    if unknown.is_none() && taint.is_none() {
        return None;
    }
    let since = told(unknown.and_then(|c| c.last_transition_time.as_ref()));
    let since = since.or_else(|| told(taint.and_then(|taint| taint.time_added.as_ref())));
    // Without a time the kubelet has been silent from the start.
    Some(since.unwrap_or(DateTime::<Utc>::MIN_UTC))
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
            let surroundings = Surroundings::new(budgets, vec![pod("db-1", "False")]);
            let obstacle = surroundings.obstacle(&db, None, Utc::now());
            assert_eq!(obstacle.map(|blocker| blocker.reason).as_deref(), expected);
        }
    }

    #[test]
    fn a_node_that_does_not_report_since_a_time_that_nobody_wrote_tells_no_time() {
        let written = json!("2026-11-21T12:00:00Z");
        let zero = json!("0001-01-01T00:00:00Z");
        for (condition, taint, expected) in [
            (&zero, &zero, DateTime::<Utc>::MIN_UTC),
            (&Value::Null, &zero, DateTime::<Utc>::MIN_UTC),
            (&zero, &written, "2026-11-21T12:00:00Z".parse().unwrap()),
        ] {
            let node = json!({
                "spec": {"taints": [{"key": UNREACHABLE_TAINT, "effect": "NoExecute", "timeAdded": taint}]},
                "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": condition}]},
            });
            let node: Node = serde_json::from_value(node).unwrap();
            assert_eq!(silent_since(&node), Some(expected), "{condition} {taint}");
        }
    }
}
