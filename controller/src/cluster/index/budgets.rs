//! PodDisruptionBudgets in the index.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use evacuation_protocol::{
    BudgetState, LivePod, PackedSelector, PodPhase, Surroundings, may_have_stopped, project_budget, room,
};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};

use super::{Change, Index, Indexed, Table};
use crate::cluster::ObjectKey;

impl Indexed for PodDisruptionBudget {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.budgets
    }

    fn project(&mut self) {
        project_budget(self);
    }

    /// Only a change of what a budget selects, of how it treats unhealthy pods, or of the reason why it holds
    /// its pods touches Evacuations. That its status allows more is taken in by the budget queues, which wake
    /// as many as may go.
    fn changed(index: &mut Index, change: &Change<Self>) -> Vec<ObjectKey> {
        let old = index.selectors.get(&change.key).cloned().flatten();
        let new = change.new.as_deref().and_then(selector);
        match &change.new {
            Some(_) => index.selectors.insert(change.key.clone(), new.clone()),
            None => index.selectors.remove(&change.key),
        };
        let same = match (&change.old, &change.new) {
            (Some(old), Some(new)) => old.spec == new.spec && states(old) == states(new),
            _ => false,
        };
        if same {
            return Vec::new();
        }
        let selectors: Vec<PackedSelector> = old.into_iter().chain(new).collect();
        let matches = |pod: &Pod| selectors.iter().any(|selector| selector.selects(labels(pod)));
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
                self.selectors.get(key).and_then(Option::as_ref).is_some_and(|s| s.selects(labels(pod)))
            })
            .map(|(_, budget)| Arc::clone(budget))
            .collect()
    }

    /// The budgets of a namespace.
    pub(crate) fn budgets_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<PodDisruptionBudget>> {
        self.budgets.namespace(namespace).map(|(_, budget)| budget)
    }

    /// The pods that a budget selects and does not count as healthy.
    pub(crate) fn unready_of(&self, budget: &ObjectKey) -> Vec<Arc<Pod>> {
        let Some(Some(selector)) = self.selectors.get(budget) else { return Vec::new() };
        let pods = self.pods_in(&budget.namespace);
        pods.filter(|pod| selector.selects(labels(pod)) && Surroundings::is_unready(pod)).cloned().collect()
    }

    /// Returns true when a budget selects a pod, as it is or was.
    pub(crate) fn is_selected(&self, budget: &ObjectKey, pod: &Pod) -> bool {
        self.selectors.get(budget).and_then(Option::as_ref).is_some_and(|s| s.selects(labels(pod)))
    }

    /// The number of further pods of a budget that may be asked now. `granted` are Evacuations that ask their
    /// pods from now on. A budget that was not computed for its newest spec has no room.
    pub(crate) fn asking_room(&self, budget: &ObjectKey, granted: &BTreeSet<ObjectKey>) -> i64 {
        let (Some(known), Some(Some(selector))) = (self.budgets.get(budget), self.selectors.get(budget))
        else {
            return i64::MAX;
        };
        let status = known.status.as_ref();
        let observed = status.and_then(|status| status.observed_generation).unwrap_or_default();
        let desired = status.and_then(|status| status.desired_healthy);
        let Some(desired) = desired.filter(|_| observed >= known.metadata.generation.unwrap_or_default())
        else {
            return 0;
        };
        let serves = |key: &ObjectKey, pod: &Pod| {
            let view = LivePod::of(pod);
            view.ready
                && view.terminating_until.is_none()
                && view.phase == PodPhase::Running
                && !self.is_asked(key, pod, granted)
        };
        let pods = self.pods.namespace(&budget.namespace).filter(|(_, pod)| selector.selects(labels(pod)));
        room(pods.filter(|(key, pod)| serves(key, pod)).count(), desired)
    }

    /// The name of a pod of the budget that was asked and may have stopped its work: the first by name.
    pub(crate) fn asked_in_budget(&self, budget: &ObjectKey) -> Option<String> {
        let Some(Some(selector)) = self.selectors.get(budget) else { return None };
        let mut pods = self.pods.namespace(&budget.namespace);
        let none = BTreeSet::new();
        let asked = pods.find(|(key, pod)| selector.selects(labels(pod)) && self.is_asked(key, pod, &none));
        asked.map(|(key, _)| key.name.clone())
    }

    /// Returns true when a pod was asked and may have stopped its work, or is asked by one of `granted`.
    fn is_asked(&self, key: &ObjectKey, pod: &Pod, granted: &BTreeSet<ObjectKey>) -> bool {
        self.active_of(key).iter().any(|key| {
            let evacuation = self.evacuations.get(key).filter(|e| e.spec.target.pod.uid == pod.metadata.uid);
            let status = evacuation.and_then(|evacuation| evacuation.status.as_ref());
            status.is_some_and(|status| granted.contains(key) || may_have_stopped(status))
        })
    }

    /// The budget of that key.
    pub(crate) fn budget(&self, key: &ObjectKey) -> Option<Arc<PodDisruptionBudget>> {
        self.budgets.get(key).cloned()
    }
}

/// A budget's selector. In policy/v1 an absent one selects nothing and an empty one every pod of the
/// namespace. One that cannot be read selects nothing, as in the eviction API.
fn selector(budget: &PodDisruptionBudget) -> Option<PackedSelector> {
    PackedSelector::of(budget.spec.as_ref()?.selector.as_ref()?)
}

/// The states in which a budget holds pods with a controller, and pods without one.
fn states(budget: &PodDisruptionBudget) -> [BudgetState; 2] {
    [true, false].map(|is_owned| BudgetState::of(budget, is_owned))
}

fn labels(pod: &Pod) -> &BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    pod.metadata.labels.as_ref().unwrap_or(&NONE)
}
