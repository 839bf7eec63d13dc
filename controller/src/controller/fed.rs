//! What is fed into the index, and what else follows from it.

use evacuation_api::Evacuation;
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Namespace, Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::core::PartialObjectMeta;
use tokio::time::Instant;

use super::{Controller, lock};
use crate::{
    evictor::BudgetStatus,
    index::{Indexed, Update},
    negotiation::notices,
    refresh::{follow_evacuation, follow_namespace, follow_pod, follow_replica_set},
};

/// A kind that is fed into the index.
pub(crate) trait Fed: Indexed {
    /// What else follows from a change.
    fn fed(_controller: &Controller, _update: &Update<Self>) {}
}

impl Fed for Pod {
    fn fed(controller: &Controller, update: &Update<Self>) {
        for change in &update.changes {
            follow_pod(controller, change);
            controller.wake_for_pod(change);
        }
    }
}

impl Fed for PartialObjectMeta<Namespace> {
    fn fed(controller: &Controller, update: &Update<Self>) {
        for change in &update.changes {
            follow_namespace(controller, change);
        }
    }
}

impl Fed for PartialObjectMeta<ReplicaSet> {
    fn fed(controller: &Controller, update: &Update<Self>) {
        for change in &update.changes {
            follow_replica_set(controller, change);
        }
    }
}

impl Fed for Node {}

impl Fed for PodDisruptionBudget {
    fn fed(controller: &Controller, update: &Update<Self>) {
        let now = Instant::now();
        for change in &update.changes {
            let woken = match &change.new {
                Some(budget) => lock(&controller.turns).observe(&change.key, budget_status(budget), now),
                None => lock(&controller.turns).forget(&change.key),
            };
            controller.wake(woken);
        }
    }
}

impl Fed for Evacuation {
    fn fed(controller: &Controller, update: &Update<Self>) {
        // Also by a process that only stands by: it has waited already when it leads.
        for change in &update.changes {
            controller.sightings.observe(&change.key, change.new.as_deref());
            controller.wake_for_evacuation(change);
        }
        let leads = controller.leadership.check().is_ok();
        for change in &update.changes {
            follow_evacuation(controller, change, leads);
        }
        if !leads {
            return;
        }
        for change in &update.changes {
            if let (Some(old), Some(new)) = (&change.old, &change.new) {
                for notice in notices(old, new) {
                    controller.metrics.count(&notice, new);
                    controller.notify(new, notice);
                }
            }
        }
    }
}

/// What a budget's status says. One that was not computed for the newest spec allows nothing, as in the eviction API.
pub(crate) fn budget_status(budget: &PodDisruptionBudget) -> BudgetStatus {
    let Some(status) = &budget.status else {
        return BudgetStatus::default();
    };
    let (current, desired) = (status.current_healthy.unwrap_or(0), status.desired_healthy.unwrap_or(0));
    let stale = status.observed_generation.unwrap_or(0) < budget.metadata.generation.unwrap_or(0);
    BudgetStatus {
        disruptions_allowed: if stale { 0 } else { status.disruptions_allowed.unwrap_or(0) },
        disrupted_pods: status.disrupted_pods.iter().flatten().map(|(pod, _)| pod.clone()).collect(),
        healthy: desired > 0 && current >= desired,
    }
}
