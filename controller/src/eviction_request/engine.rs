//! The feature: its watches, its keys, and one round of work for a pod.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use clap::Args;
use evacuation_protocol::{Eviction, EvictionRequest, EvictionWorld, has_eviction_entries, plan_eviction};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::Api;
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    acts::Acts,
    others::OthersLease,
    targets::{NamesPod, Targets},
};
use crate::cluster::{
    CallError, Change, Cluster, ClusterEvent, Feature, Kind, ObjectKey, Requeue, ServerClock, View,
    WorkQueue, due, follow, pod_key,
};

/// Time between looks whether the API has listed what must be known first.
const UNLISTED_PAUSE: Duration = Duration::from_secs(1);

/// Flags of the feature.
#[derive(Clone, Debug, Args)]
pub struct EvictionRequestOptions {
    /// Act on the EvictionRequests of Kubernetes (lifecycle.k8s.io/v1alpha1), where that API is served.
    #[arg(long)]
    pub eviction_requests: bool,
    /// Lease of Kubernetes' own controllers for EvictionRequests, as NAMESPACE/NAME. While it is held, this
    /// controller does not act on them.
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "kube-system/evictionrequest-controller",
          value_parser = lease_name)]
    pub eviction_requests_yield_to: (String, String),
}

fn lease_name(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("must be a namespace and a name, as in kube-system/evictionrequest-controller".to_owned()),
    }
}

/// The feature that acts on EvictionRequests. Its keys are pods.
pub(crate) struct EvictionRequests {
    client: kube::Client,
    view: Arc<View>,
    clock: Arc<ServerClock>,
    lease: (String, String),
    queue: Arc<WorkQueue<ObjectKey>>,
    requests: Arc<Targets<EvictionRequest>>,
    evictions: Arc<Targets<Eviction>>,
    others: Arc<OthersLease>,
    acts: Acts,
}

impl EvictionRequests {
    /// Returns the feature.
    pub(crate) fn new(cluster: &Cluster, options: &EvictionRequestOptions) -> Arc<Self> {
        let queue = Arc::new(WorkQueue::default());
        let requests = Arc::new(Targets::new(&queue));
        let evictions = Arc::new(Targets::new(&queue));
        let changed = {
            let (queue, requests, evictions) =
                (Arc::clone(&queue), Arc::clone(&requests), Arc::clone(&evictions));
            move || queue.add_all(pods(&requests, &evictions))
        };
        Arc::new(Self {
            client: cluster.client.clone(),
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            lease: options.eviction_requests_yield_to.clone(),
            acts: Acts::new(cluster, &requests, &evictions),
            others: Arc::new(OthersLease::new(changed)),
            queue,
            requests,
            evictions,
        })
    }

    /// Returns true when the feature has work with a pod, or had.
    fn concerns(&self, pod: &ObjectKey) -> bool {
        let named = || {
            let index = self.view.index();
            index.pod(pod).is_some_and(|pod| names_responders(&pod)) && !index.evacuations_of(pod).is_empty()
        };
        self.requests.name(pod) || self.evictions.name(pod) || named()
    }

    fn concerned(&self, event: &ClusterEvent<'_>) -> Option<ObjectKey> {
        match event {
            ClusterEvent::Evacuation(change) => {
                let evacuation = change.new.as_ref().or(change.old.as_ref())?;
                let pod = pod_key(evacuation);
                (has_eviction_entries(evacuation) || self.concerns(&pod)).then_some(pod)
            }
            ClusterEvent::Pod(Change { key, .. }) => self.concerns(key).then(|| key.clone()),
            _ => None,
        }
    }

    /// Does one round of work for the pod of one UID.
    async fn of_uid(&self, key: &ObjectKey, uid: &str, known: Known<'_>) -> Result<Requeue, CallError> {
        let (pod, evacuations) = {
            let index = self.view.index();
            (index.pod(key), index.evacuations_of(key))
        };
        let others_until = self.others.held_until();
        let mut world = EvictionWorld {
            namespace: &key.namespace,
            name: &key.name,
            uid,
            pod: pod.as_deref().filter(|pod| pod.metadata.uid.as_deref() == Some(uid)),
            is_gone: false,
            requests: known.requests,
            evictions: known.evictions,
            evacuations: evacuations
                .iter()
                .map(AsRef::as_ref)
                .filter(|evacuation| evacuation.spec.target.pod.uid.as_deref() == Some(uid))
                .collect(),
            others_act: others_until.is_some(),
        };
        let mut plan = plan_eviction(&world, self.clock.now());
        if plan.reads_pod {
            world.is_gone = self.acts.finds_no_pod(key, uid).await?;
            plan = plan_eviction(&world, self.clock.now());
        }
        self.acts.carry_out(&world, &plan.acts).await?;
        let wake_at = plan.wake_at.map(|time| due(time, self.clock.now()));
        Ok([wake_at, others_until].into_iter().flatten().min().into())
    }
}

/// The objects that name the pod of one UID.
#[derive(Default)]
struct Known<'a> {
    requests: Vec<&'a EvictionRequest>,
    evictions: Vec<&'a Eviction>,
}

/// Returns the UID of the pod that an object names.
fn uid_of(object: &impl NamesPod) -> String {
    object.pod().map(|pod| pod.1.to_owned()).unwrap_or_default()
}

/// Returns true for a pod that names responders of that API.
fn names_responders(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.eviction_responders.as_ref()).is_some_and(|all| !all.is_empty())
}

/// Returns every pod that a request or an Eviction names.
fn pods(requests: &Targets<EvictionRequest>, evictions: &Targets<Eviction>) -> BTreeSet<ObjectKey> {
    requests.pods().into_iter().chain(evictions.pods()).collect()
}

#[async_trait]
impl Feature for EvictionRequests {
    fn name(&self) -> &'static str {
        "eviction-requests"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::Evacuations, Kind::Pods]
    }

    fn follow(self: Arc<Self>, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
        let (requests, evictions, others) =
            (Arc::clone(&self.requests), Arc::clone(&self.evictions), Arc::clone(&self.others));
        let client = || self.client.clone();
        let (api, token) = (Api::all(client()), stop.clone());
        tasks.spawn(async move {
            follow::<EvictionRequest, _>(api, "watch of evictionrequests", None, &*requests, token).await;
        });
        let (api, token) = (Api::all(client()), stop.clone());
        tasks.spawn(async move {
            follow::<Eviction, _>(api, "watch of evictions", None, &*evictions, token).await;
        });
        let (namespace, name) = self.lease.clone();
        let (api, token) = (Api::namespaced(client(), &namespace), stop.clone());
        let name = format!("metadata.name={name}");
        tasks.spawn(async move {
            follow::<Lease, _>(
                api,
                "watch of the lease of Kubernetes' own controllers",
                Some(&name),
                &*others,
                token,
            )
            .await;
        });
    }

    fn is_required(&self) -> bool {
        false
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    fn handle(&self, event: &ClusterEvent<'_>) {
        self.acts.handle(event);
        self.queue.add_all(self.concerned(event));
    }

    fn resync(&self) {
        let index = self.view.index();
        let ours = index.evacuations().filter(|(_, evacuation)| has_eviction_entries(evacuation));
        let ours: Vec<_> = ours.map(|(_, evacuation)| pod_key(evacuation)).collect();
        drop(index);
        self.queue.add_all(pods(&self.requests, &self.evictions));
        self.queue.add_all(ours);
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        // Without the lists every request would seem to be withdrawn, and nobody else to act.
        if !self.requests.is_listed() || !self.evictions.is_listed() || !self.others.is_listed() {
            return Ok(Requeue::At(Instant::now() + UNLISTED_PAUSE));
        }
        let (requests, evictions) = (self.requests.of(key), self.evictions.of(key));
        let mut by_uid: BTreeMap<String, Known<'_>> = BTreeMap::new();
        for request in &requests {
            by_uid.entry(uid_of(request.as_ref())).or_default().requests.push(request);
        }
        for eviction in &evictions {
            by_uid.entry(uid_of(eviction.as_ref())).or_default().evictions.push(eviction);
        }
        let evacuations = self.view.index().evacuations_of(key);
        for uid in evacuations.iter().filter_map(|evacuation| evacuation.spec.target.pod.uid.clone()) {
            by_uid.entry(uid).or_default();
        }
        // One that fails keeps no other from its turn.
        let (mut next, mut failure) = (Requeue::OnEvent, None);
        for (uid, known) in by_uid {
            match self.of_uid(key, &uid, known).await {
                Ok(requeue) => next = next.min(requeue),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(next), Err)
    }

    fn is_expected(&self, error: &CallError) -> bool {
        matches!(error.code(), 404 | 409)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_named_with_its_namespace() {
        assert_eq!(lease_name("a/b"), Ok(("a".to_owned(), "b".to_owned())));
        for wrong in ["a", "/b", "a/"] {
            assert!(lease_name(wrong).is_err(), "{wrong}");
        }
    }
}
