//! Live reads of the owners of pods, and of their pods.

use std::{collections::BTreeMap, fmt, time::Duration};

use evacuation_protocol::selects;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
        batch::v1::Job,
        core::v1::{Pod, PodStatus, ReplicationController},
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference},
};
use kube::{
    Api, Client, Resource,
    api::ListParams,
    core::{NamespaceResourceScope, ObjectMeta, Selector},
};
use machinery_client::Shares;
use machinery_watch::{Projected, Projection};
use moka::sync::Cache;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tracing::warn;

use super::{
    demand::{Demand, replicas, wanted_of_job},
    rule::is_surplus,
};
use crate::{
    call::Call,
    owner::{Owner, OwnerKind, controller_of, read},
    paging::list,
};

/// Maximum number of calls whose owners are read at the same time.
const READS: usize = 4;
/// Maximum number of those of one namespace: a quarter, so that slow reads of a namespace hold up no other.
const READS_OF_NAMESPACE: usize = READS / 4;
/// Number of objects in a page. The text of a page is in memory as a whole, and a pod can have a megabyte.
const PAGE: u32 = 50;
/// Maximum number of pages. A larger workload counts, unless it wants no pods at all.
const PAGES: usize = 10;
/// Time for which an owner that wants no pods is known. A scale-down to 0 deletes many pods within it.
const KNOWN: Duration = Duration::from_secs(1);
/// Maximum number of such owners.
const OWNERS: u64 = 10_000;

/// Reads owners, and compares their pods with their wishes.
///
/// # Guarantees
///
/// Slow reads of three namespaces leave one to a fourth. The callers are controllers that act for all
/// namespaces. The share is therefore the namespace's, and a call that waits for it has no slot of its user.
pub(crate) struct SurplusReader {
    client: Client,
    /// UIDs of the controllers of pods whose top owners want no pods.
    ///
    /// That a pod is not surplus is never remembered, not even for a second: a deletion that follows a
    /// scale-down at once would count, and the next try of its controller can be 1,000 s later. A rollout
    /// that tries again and again is bounded by the share of its namespace.
    unwanted: Cache<String, ()>,
    reads: Shares,
}

/// The wish of the top owner of a pod.
enum Wish {
    /// It wants no pods, is being deleted, or is gone.
    Nothing,
    /// It wants pods, so their state decides.
    Pods(Demand),
    /// The gateway does not know.
    Unknown,
}

/// The part of a ReplicaSet, a pod or a budget that the comparison needs.
enum Compared {}

impl Projection<ReplicaSet> for Compared {
    fn project(set: &mut ReplicaSet) {
        set.spec.template = None;
        set.metadata = identity(std::mem::take(&mut set.metadata));
    }
}

impl Projection<Pod> for Compared {
    fn project(pod: &mut Pod) {
        pod.spec = None;
        pod.metadata = identity(std::mem::take(&mut pod.metadata));
        if let Some(status) = pod.status.take() {
            let ready = status.conditions.into_iter().flatten().filter(|c| c.type_ == "Ready");
            let conditions = Some(ready.collect());
            pod.status = Some(PodStatus { conditions, phase: status.phase, ..PodStatus::default() });
        }
    }
}

impl Projection<PodDisruptionBudget> for Compared {
    fn project(budget: &mut PodDisruptionBudget) {
        budget.metadata = identity(std::mem::take(&mut budget.metadata));
        if let Some(status) = budget.status.take() {
            let desired_healthy = status.desired_healthy;
            budget.status = Some(PodDisruptionBudgetStatus { desired_healthy, ..Default::default() });
        }
    }
}

impl SurplusReader {
    /// Returns a reader by that client.
    pub(crate) fn new(client: Client) -> Self {
        let unwanted = Cache::builder().max_capacity(OWNERS).time_to_live(KNOWN).build();
        Self { client, unwanted, reads: Shares::new(READS, READS_OF_NAMESPACE) }
    }

    /// Returns true when the owner of the pod no longer wants it, and the call is the owner's controller's.
    /// False for an owner that cannot be read within `patience`. That is a part of the time of the answer, so
    /// that the app can still be asked.
    pub(crate) async fn is_surplus(&self, call: &Call, pod: &Pod, patience: Duration) -> bool {
        let Some(owner) = Owner::of(pod).filter(|owner| owner.kind.is_controlled_by(&call.user.name)) else {
            return false;
        };
        if self.unwanted.contains_key(&owner.uid) {
            return true;
        }
        let comparison = async {
            let _slot = self.reads.slot(&owner.namespace, patience).await.ok()?;
            // Another call of the owner can have read it while this one waited.
            let is_known = self.unwanted.contains_key(&owner.uid);
            Some(if is_known { Ok(true) } else { self.compare(&owner, pod).await })
        };
        match timeout(patience, comparison).await.ok().flatten() {
            Some(Ok(surplus)) => surplus,
            Some(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                warn!(error, "{owner} cannot be read, the deletion of pod {} counts", call.target());
                false
            }
            None => {
                warn!("{owner} was not read in time, the deletion of pod {} counts", call.target());
                false
            }
        }
    }

    async fn compare(&self, owner: &Owner, pod: &Pod) -> kube::Result<bool> {
        let demand = match self.wish(owner).await? {
            Wish::Pods(demand) if demand.wanted > 0 => demand,
            Wish::Pods(_) | Wish::Nothing => {
                self.unwanted.insert(owner.uid.clone(), ());
                return Ok(true);
            }
            Wish::Unknown => return Ok(false),
        };
        let all = LabelSelector::default();
        let read = tokio::try_join!(
            self.list::<Pod>(&owner.namespace, &demand.selector),
            self.list::<PodDisruptionBudget>(&owner.namespace, &all),
        );
        let (Some(pods), Some(budgets)) = read? else { return Ok(false) };
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let compared = demand.compare(&pods, needed(&budgets, pod), uid);
        Ok(compared.is_some_and(|(workload, candidate)| is_surplus(workload, candidate)))
    }

    async fn wish(&self, owner: &Owner) -> kube::Result<Wish> {
        let (client, uid) = (&self.client, owner.uid.as_str());
        let number = |wanted, selector| Wish::Pods(Demand::of_number(uid, wanted, selector));
        Ok(match owner.kind {
            OwnerKind::ReplicaSet => match owner.read::<ReplicaSet>(client).await?.filter(stays) {
                None => Wish::Nothing,
                Some(set) => match controller_of(&set.metadata) {
                    Some(top) if is_deployment(top) => self.wish_of_deployment(&owner.namespace, top).await?,
                    // It may move pods between ReplicaSets, as a Deployment does.
                    Some(_) => Wish::Unknown,
                    None => number(replicas(set.spec.replicas), set.spec.selector),
                },
            },
            OwnerKind::ReplicationController => {
                match owner.read::<ReplicationController>(client).await?.filter(stays) {
                    None => Wish::Nothing,
                    // A DeploymentConfig of OpenShift moves pods between them.
                    Some(set) if controller_of(&set.metadata).is_some() => Wish::Unknown,
                    Some(set) => {
                        let spec = set.spec.unwrap_or_default();
                        let selector = LabelSelector { match_labels: spec.selector, match_expressions: None };
                        number(replicas(spec.replicas), selector)
                    }
                }
            }
            OwnerKind::StatefulSet => match owner.read::<StatefulSet>(client).await?.filter(stays) {
                None => Wish::Nothing,
                Some(set) => Wish::Pods(Demand::of_stateful_set(uid, &set)),
            },
            OwnerKind::Job => match owner.read::<Job>(client).await?.filter(stays) {
                None => Wish::Nothing,
                Some(job) => match (wanted_of_job(&job), job.spec.and_then(|spec| spec.selector)) {
                    (0, _) => Wish::Nothing,
                    (_, None) => Wish::Unknown,
                    (wanted, Some(selector)) => number(wanted, selector),
                },
            },
            // It wants a pod on each of its nodes, which only its controller knows.
            OwnerKind::DaemonSet => match owner.read::<DaemonSet>(client).await?.filter(stays) {
                None => Wish::Nothing,
                Some(_) => Wish::Unknown,
            },
        })
    }

    async fn wish_of_deployment(&self, namespace: &str, top: &OwnerReference) -> kube::Result<Wish> {
        let found = read::<Deployment>(&self.client, namespace, &top.name, &top.uid).await?.filter(stays);
        let Some(spec) = found.map(|deployment| deployment.spec) else {
            return Ok(Wish::Nothing);
        };
        let wanted = replicas(spec.replicas);
        if wanted == 0 {
            return Ok(Wish::Nothing);
        }
        let sets = self.list::<ReplicaSet>(namespace, &spec.selector).await?;
        Ok(sets.map_or(Wish::Unknown, |sets| {
            Wish::Pods(Demand::of_deployment(&top.uid, wanted, spec.selector, &sets))
        }))
    }

    /// Reads the objects that a selector picks. `None` where there are too many, or the selector is invalid.
    async fn list<K>(&self, namespace: &str, selector: &LabelSelector) -> kube::Result<Option<Vec<K>>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + fmt::Debug + DeserializeOwned,
        Compared: Projection<K>,
    {
        let Ok(selector) = Selector::try_from(selector.clone()) else { return Ok(None) };
        let api = Api::<Projected<K, Compared>>::namespaced(self.client.clone(), namespace);
        list(&api, ListParams::default().labels_from(&selector).limit(PAGE), PAGES).await
    }
}

/// Returns the number of healthy pods that the budgets of a pod need.
fn needed(budgets: &[PodDisruptionBudget], pod: &Pod) -> usize {
    let none = BTreeMap::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
    let of_pod = budgets.iter().filter(|budget| {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        selector.is_some_and(|selector| selects(selector, labels))
    });
    let needed = of_pod.filter_map(|budget| budget.status.as_ref()?.desired_healthy).max();
    needed.and_then(|needed| needed.try_into().ok()).unwrap_or_default()
}

/// Returns true for an object that is not being deleted.
fn stays<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_none()
}

fn is_deployment(owner: &OwnerReference) -> bool {
    owner.kind == "Deployment" && owner.api_version == "apps/v1"
}

/// The fields of metadata that name an object and its controller, and say that it is being deleted.
fn identity(metadata: ObjectMeta) -> ObjectMeta {
    let mut owners = metadata.owner_references;
    if let Some(owners) = &mut owners {
        owners.retain(|owner| owner.controller == Some(true));
        owners.shrink_to_fit();
    }
    ObjectMeta {
        name: metadata.name,
        uid: metadata.uid,
        deletion_timestamp: metadata.deletion_timestamp,
        owner_references: owners,
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests;
