//! The budgets of pods, and the pods that share them: the surroundings that a judgement needs.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use chrono::{DateTime, Utc};
use evacuation_api::{
    DrainBlocker, Evacuation, EvacuationSpec, PodTarget, Requester, Target, from_condition_time,
};
use evacuation_protocol::{DrainedPod, LivePod, PodPhase, Standing, begin, judge, selects};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, Client, ResourceExt, api::ListParams};

/// PodDisruptionBudgets, and the pods of their namespaces.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    budgets: Vec<PodDisruptionBudget>,
    pods: Vec<Pod>,
}

impl Surroundings {
    /// Reads the surroundings of a pod.
    pub(crate) async fn of_namespace(client: &Client, namespace: &str) -> anyhow::Result<Self> {
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), namespace);
        let budgets = budgets.list(&ListParams::default()).await;
        let budgets = budgets
            .with_context(|| format!("poddisruptionbudgets of namespace {namespace} cannot be listed"))?;
        Ok(Self { budgets: budgets.items, pods: pods_of(client, namespace).await? })
    }

    /// Reads the surroundings of pods.
    pub(crate) async fn of_pods(client: &Client, pods: &[Pod]) -> anyhow::Result<Self> {
        let budgets: Api<PodDisruptionBudget> = Api::all(client.clone());
        let budgets = budgets.list(&ListParams::default()).await;
        let budgets = budgets.context("poddisruptionbudgets cannot be listed")?.items;
        let mut surroundings = Self { budgets, pods: Vec::new() };
        let budgeted = pods.iter().filter(|pod| !surroundings.budgets_of(pod).is_empty());
        let namespaces: BTreeSet<String> = budgeted.filter_map(ResourceExt::namespace).collect();
        for namespace in namespaces {
            surroundings.pods.extend(pods_of(client, &namespace).await?);
        }
        Ok(surroundings)
    }

    /// Returns the pod as a drain that is that far with it sees it.
    pub(crate) fn drained<'a>(
        &'a self,
        pod: &'a Pod,
        standing: Standing<'a>,
        node: Option<&Node>,
    ) -> DrainedPod<'a> {
        let budgets = self.budgets_of(pod);
        DrainedPod {
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default(),
            unready: self.unready_of(pod, &budgets),
            attach_failures: &[],
            pod,
            standing,
            budgets,
            node_silent_since: node.and_then(silent_since),
        }
    }

    /// Returns the obstacle that an eviction of the pod would meet now.
    pub(crate) fn obstacle(&self, pod: &Pod, now: DateTime<Utc>) -> Option<DrainBlocker> {
        let asked = ready_to_evict(pod, now);
        judge(&self.drained(pod, Standing::Asked(&asked), None), now).blocker
    }

    /// Returns the budgets that select a pod.
    pub(crate) fn budgets_of(&self, pod: &Pod) -> Vec<&PodDisruptionBudget> {
        self.budgets.iter().filter(|budget| covers(budget, pod)).collect()
    }

    /// Returns the pods that the same budgets select, or that have the same controller, and that are neither
    /// ready nor terminating.
    fn unready_of(&self, pod: &Pod, budgets: &[&PodDisruptionBudget]) -> Vec<&Pod> {
        let related = |other: &Pod| {
            let owner = controller(pod);
            (owner.is_some() && owner == controller(other)) || budgets.iter().any(|b| covers(b, other))
        };
        let unready = |other: &&Pod| {
            let live = LivePod::of(other);
            let waits = !live.ready && live.terminating_until.is_none() && live.phase != PodPhase::Terminal;
            waits && other.uid() != pod.uid() && related(other)
        };
        self.pods.iter().filter(unready).collect()
    }
}

async fn pods_of(client: &Client, namespace: &str) -> anyhow::Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pods = pods.list(&ListParams::default()).await;
    Ok(pods.with_context(|| format!("pods of namespace {namespace} cannot be listed"))?.items)
}

fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let none = BTreeMap::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
    budget.namespace() == pod.namespace() && selector.is_some_and(|selector| selects(selector, labels))
}

fn controller(pod: &Pod) -> Option<&str> {
    let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    Some(owner.uid.as_str())
}

/// Returns the time since which the node's kubelet does not report.
fn silent_since(node: &Node) -> Option<DateTime<Utc>> {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let unknown = conditions.find(|c| c.type_ == "Ready" && c.status == "Unknown")?;
    Some(unknown.last_transition_time.as_ref().map_or(DateTime::<Utc>::MIN_UTC, from_condition_time))
}

/// Returns an Evacuation of the pod whose responders are done, so that only the eviction is left.
fn ready_to_evict(pod: &Pod, now: DateTime<Utc>) -> Evacuation {
    let spec = EvacuationSpec {
        target: Target { pod: PodTarget { name: pod.name_any(), uid: pod.uid() } },
        requesters: vec![Requester::named("drain.evacuation.dev/plan")],
        ttl_seconds_after_finished: None,
    };
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
            let surroundings = Surroundings { budgets, pods: vec![pod("db-1", "False")] };
            let obstacle = surroundings.obstacle(&db, Utc::now());
            assert_eq!(obstacle.map(|blocker| blocker.reason).as_deref(), expected);
        }
    }
}
