//! PodDisruptionBudgets in the index.

use std::{collections::BTreeMap, sync::Arc};

use evacuation_protocol::{LivePod, PodPhase};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::core::{Selector, SelectorExt};

use super::{Change, Index, Indexed, Table};
use crate::cluster::ObjectKey;

impl Indexed for PodDisruptionBudget {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.budgets
    }

    /// Only a change of what a budget selects, or of how it treats unhealthy pods, touches Evacuations. That
    /// its status allows more is taken in by the budget queues, which wake as many as may go.
    fn changed(index: &mut Index, change: &Change<Self>) -> Vec<ObjectKey> {
        let old = index.selectors.get(&change.key).cloned().flatten();
        let new = change.new.as_deref().and_then(selector);
        match &change.new {
            Some(_) => index.selectors.insert(change.key.clone(), new.clone()),
            None => index.selectors.remove(&change.key),
        };
        let same_spec = match (&change.old, &change.new) {
            (Some(old), Some(new)) => old.spec == new.spec,
            _ => false,
        };
        if same_spec {
            return Vec::new();
        }
        let selectors: Vec<Selector> = old.into_iter().chain(new).collect();
        let matches = |pod: &Pod| selectors.iter().any(|selector| selector.matches(labels(pod)));
        let pods: Vec<&ObjectKey> = index
            .pods
            .namespace(&change.key.namespace)
            .filter(|(_, pod)| matches(pod))
            .map(|(key, _)| key)
            .collect();
        pods.into_iter().flat_map(|pod| index.active_of(pod)).collect()
    }
}

impl Index {
    /// The budgets that select a pod, ordered by name.
    pub(crate) fn budgets_of(&self, pod: &Pod) -> Vec<Arc<PodDisruptionBudget>> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        self.budgets
            .namespace(namespace)
            .filter(|(key, _)| {
                self.selectors.get(key).and_then(Option::as_ref).is_some_and(|s| s.matches(labels(pod)))
            })
            .map(|(_, budget)| Arc::clone(budget))
            .collect()
    }

    /// The budgets of a namespace.
    pub(crate) fn budgets_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<PodDisruptionBudget>> {
        self.budgets.namespace(namespace).map(|(_, budget)| budget)
    }

    /// The pods that a budget selects and that are neither ready nor terminating nor completed.
    pub(crate) fn unready_of(&self, budget: &ObjectKey) -> Vec<Arc<Pod>> {
        let Some(Some(selector)) = self.selectors.get(budget) else { return Vec::new() };
        let waits = |pod: &Pod| {
            let view = LivePod::of(pod);
            !view.ready && view.terminating_until.is_none() && view.phase != PodPhase::Terminal
        };
        let pods = self.pods_in(&budget.namespace);
        pods.filter(|pod| selector.matches(labels(pod)) && waits(pod)).cloned().collect()
    }

    /// The budget of that key.
    pub(crate) fn budget(&self, key: &ObjectKey) -> Option<Arc<PodDisruptionBudget>> {
        self.budgets.get(key).cloned()
    }
}

/// A budget's selector. In policy/v1 an absent one selects nothing and an empty one every pod of the
/// namespace. One that cannot be read selects nothing, as in the eviction API.
fn selector(budget: &PodDisruptionBudget) -> Option<Selector> {
    Selector::try_from(budget.spec.as_ref()?.selector.clone()?).ok()
}

fn labels(pod: &Pod) -> &BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    pod.metadata.labels.as_ref().unwrap_or(&NONE)
}
