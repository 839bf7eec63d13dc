//! Reads of the part of the cluster that the plan of a new drain depends on.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use async_trait::async_trait;
use evacuation_api::{MAX_DRAINED_NODES, NodeEvacuationSpec, NodeSelection};
use evacuation_protocol::{DrainSight, Surroundings, daemon_set_key, keep_pin, selects};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Container, Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, Client, api::ListParams};
use machinery_auth::flow;
use machinery_client::Shares;

/// Timeout of all reads for one plan.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of plans that are made at a time. Each holds pods in memory.
const AT_ONCE: usize = 2;
/// Maximum number of those of one flow: half, so that slow plans of a user hold up no other.
const AT_ONCE_OF_FLOW: usize = AT_ONCE / 2;
/// Maximum number of reads under way for one plan.
const READS: usize = 8;

/// Failure to read the part of the cluster that a drain concerns.
#[derive(Debug, thiserror::Error)]
pub enum SightError {
    /// The kube-apiserver did not answer in time, or other plans took the time.
    #[error("the cluster was not read within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// The kube-apiserver is not reachable, or rejected a request.
    #[error("{what} cannot be read")]
    Read {
        /// The objects.
        what: String,
        /// The client's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Reader of the part of the cluster that the plan of a new drain depends on.
#[async_trait]
pub trait Sights: Send + Sync + 'static {
    /// Returns the nodes of a drain, their pods, and the budgets, for a request of that user.
    async fn read(&self, drain: &NodeEvacuationSpec, user: &str) -> Result<DrainSight, SightError>;
}

/// Reader from the kube-apiserver.
///
/// # Guarantees
///
/// Reads are served by the kube-apiserver's cache. At most two plans are read for at a time, and one of a
/// user, or of the service accounts of a namespace. Of each pod only the fields are kept that the plan needs.
pub struct KubeSights {
    client: Client,
    turns: Shares,
}

impl KubeSights {
    /// Returns a reader with that client, which needs `list` for pods, nodes and poddisruptionbudgets, and
    /// `get` for nodes and daemonsets.
    pub fn new(client: Client) -> Self {
        Self { client, turns: Shares::new(AT_ONCE, AT_ONCE_OF_FLOW) }
    }

    async fn read_all(&self, drain: &NodeEvacuationSpec) -> Result<DrainSight, SightError> {
        let nodes = self.nodes(&drain.nodes).await?;
        let names: Vec<String> = nodes.iter().filter_map(|node| node.metadata.name.clone()).collect();
        let pods = stream::iter(names).map(|node| self.pods_on(node)).buffered(READS);
        let pods: Vec<Pod> = pods.try_collect::<Vec<_>>().await?.into_iter().flatten().collect();
        let budgets: Api<PodDisruptionBudget> = Api::all(self.client.clone());
        let budgets = budgets.list(&cached()).await.map_err(read("poddisruptionbudgets"))?.items;
        let with_budgets: BTreeSet<_> = budgets.iter().filter_map(|b| b.metadata.namespace.clone()).collect();
        let namespaces: BTreeSet<_> = pods.iter().filter_map(|pod| pod.metadata.namespace.clone()).collect();
        let both: Vec<String> = namespaces.intersection(&with_budgets).cloned().collect();
        let neighbours = stream::iter(both).map(|namespace| self.pods_of(namespace)).buffered(READS);
        let neighbours = neighbours.try_collect::<Vec<_>>().await?.into_iter().flatten().collect();
        let daemon_sets: BTreeSet<String> = pods.iter().filter_map(daemon_set_key).collect();
        let missing = stream::iter(daemon_sets).map(|key| self.missing(key)).buffered(READS);
        let missing = missing.try_collect::<Vec<_>>().await?.into_iter().flatten().collect();
        let surroundings = Surroundings { budgets, pods: neighbours, asked: BTreeSet::new() };
        Ok(DrainSight { nodes, pods, surroundings, missing_daemon_sets: missing })
    }

    async fn nodes(&self, wanted: &NodeSelection) -> Result<Vec<Node>, SightError> {
        let api: Api<Node> = Api::all(self.client.clone());
        let Some(selector) = &wanted.selector else {
            let named = stream::iter(wanted.names.clone()).map(|name| {
                let api = api.clone();
                async move { api.get_opt(&name).await.map_err(read(&format!("node {name}"))) }
            });
            let nodes: Vec<Option<Node>> = named.buffered(READS).try_collect().await?;
            return Ok(nodes.into_iter().flatten().collect());
        };
        let nodes = api.list(&cached()).await.map_err(read("nodes"))?;
        let none = BTreeMap::new();
        let picked = nodes
            .items
            .into_iter()
            .filter(|node| selects(selector, node.metadata.labels.as_ref().unwrap_or(&none)));
        Ok(picked.take(MAX_DRAINED_NODES).collect())
    }

    async fn pods_on(&self, node: String) -> Result<Vec<Pod>, SightError> {
        let on_node = cached().fields(&format!("spec.nodeName={node}"));
        let pods = Api::<Pod>::all(self.client.clone()).list(&on_node).await;
        Ok(pruned(pods.map_err(read(&format!("the pods of node {node}")))?.items))
    }

    async fn pods_of(&self, namespace: String) -> Result<Vec<Pod>, SightError> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), &namespace).list(&cached()).await;
        Ok(pruned(pods.map_err(read(&format!("the pods of namespace {namespace}")))?.items))
    }

    /// Returns the key of a DaemonSet that does not exist.
    async fn missing(&self, key: String) -> Result<Option<String>, SightError> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_metadata_opt(name).await.map_err(read(&format!("daemonset {key}")))?;
        Ok(found.is_none().then_some(key))
    }
}

#[async_trait]
impl Sights for KubeSights {
    async fn read(&self, drain: &NodeEvacuationSpec, user: &str) -> Result<DrainSight, SightError> {
        let read = async {
            let _turn = self.turns.slot(flow(user), TIMEOUT).await.map_err(|_| SightError::Timeout)?;
            self.read_all(drain).await
        };
        tokio::time::timeout(TIMEOUT, read).await.unwrap_or(Err(SightError::Timeout))
    }
}

/// Parameters of a list that the kube-apiserver's cache serves.
fn cached() -> ListParams {
    ListParams::default().match_any()
}

/// Removes what a plan does not read, and what is large.
fn pruned(mut pods: Vec<Pod>) -> Vec<Pod> {
    for pod in &mut pods {
        pod.metadata.managed_fields = None;
        if let Some(spec) = &mut pod.spec {
            for container in &mut spec.containers {
                let name = std::mem::take(&mut container.name);
                *container = Container::default();
                container.name = name;
            }
            spec.init_containers = None;
        }
        keep_pin(pod);
    }
    pods
}

fn read(what: &str) -> impl FnOnce(kube::Error) -> SightError + use<> {
    let what = what.to_owned();
    |source| SightError::Read { what, source: Box::new(source) }
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;

    /// Returns a reader of a cluster without objects, in which reads of nodes `slow-...` are never answered.
    fn sights() -> KubeSights {
        let service = tower::service_fn(|request: http::Request<Body>| async move {
            let path = request.uri().path();
            let (code, body) = match path.rsplit('/').next() {
                Some(name) if name.starts_with("slow-") => std::future::pending().await,
                Some("poddisruptionbudgets") => {
                    let kind = "PodDisruptionBudgetList";
                    (200_u16, json!({"kind": kind, "apiVersion": "policy/v1", "metadata": {}, "items": []}))
                }
                _ => (404, json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})),
            };
            http::Response::builder().status(code).body(Body::from(body.to_string().into_bytes()))
        });
        KubeSights::new(Client::new(service, "default"))
    }

    fn drain(node: &str) -> NodeEvacuationSpec {
        serde_json::from_value(json!({"nodes": {"names": [node]}, "requester": {}})).unwrap()
    }

    /// # Attack
    ///
    /// - Attacker: a user who may drain nodes
    /// - Act: asks for plan after plan that takes long, so that others get none
    /// - Promise: 8
    #[tokio::test(start_paused = true)]
    async fn slow_plans_of_a_user_hold_up_no_other() {
        let sights = sights();
        let slow = drain("slow-0");
        let flood = (0..20).map(|_| sights.read(&slow, "mallory"));
        let mut flood = Box::pin(futures::future::join_all(flood));
        assert!(futures::poll!(&mut flood).is_pending());
        let began = Instant::now();
        let read = sights.read(&drain("node-a"), "alice").await.unwrap();
        assert_eq!((read.nodes.len(), began.elapsed()), (0, Duration::ZERO));
        assert!(flood.await.iter().all(Result::is_err), "a user's own plans wait for each other");
    }
}
