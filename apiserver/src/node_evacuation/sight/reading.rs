//! The reads for one plan, within bounds of memory.

use std::collections::BTreeSet;

use evacuation_api::{MAX_DRAINED_NODES, NodeEvacuationSpec, NodeSelection};
use evacuation_protocol::{
    DrainSight, PackedSelector, Surroundings, daemon_set_key, project_budget, project_node, project_pod,
};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, Client, Resource, api::ListParams, core::ObjectList};
use machinery_watch::{Projected, Projection};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::Mutex;

use super::{SightError, room::Room};
use crate::{
    bounded_read::{ReadError, exists, list_text},
    budgets,
};

/// Maximum number of reads under way for one plan.
const READS: usize = 8;
/// Maximum number of reads of budgets under way for one plan. Their pages are smaller.
const BUDGET_READS: usize = 32;
/// Number of objects in a page of a list, as in those of the watches. Of large ones fewer are read at once.
const PAGE: u32 = 20;
/// Maximum size of the text of a page, in bytes: more than one object can have.
const PAGE_BYTES: usize = 8 << 20;
/// Maximum size of the text of a list, in bytes. It takes seconds of a CPU to decode that much.
const LIST_BYTES: usize = 128 << 20;

/// The part of nodes, pods and budgets that a plan depends on.
enum Planned {}

impl Projection<Node> for Planned {
    fn project(node: &mut Node) {
        project_node(node);
    }
}

impl Projection<Pod> for Planned {
    fn project(pod: &mut Pod) {
        project_pod(pod);
    }
}

impl Projection<PodDisruptionBudget> for Planned {
    fn project(budget: &mut PodDisruptionBudget) {
        project_budget(budget);
    }
}

/// Reader of the part of the cluster that one plan depends on.
///
/// # Guarantees
///
/// A list is read in pages. Of all plans one object at a time is in memory as a whole. What is kept is
/// bounded for each kind. Nodes, or pods on them, beyond it make the plan fail. Budgets and unready pods of a
/// namespace beyond it are left out.
pub(super) struct Reading<'a> {
    client: &'a Client,
    /// Held while a page is decoded.
    decoding: &'a Mutex<()>,
    nodes: Room,
    pods: Room,
    unready: Room,
    budgets: Room,
}

/// A list to read.
struct List<'a> {
    /// The objects, for messages.
    what: String,
    namespace: Option<&'a str>,
    /// A field selector; all objects without one.
    fields: Option<String>,
    /// Maximum size of its text, in bytes.
    bytes: usize,
    /// Room for what is kept of it.
    room: &'a Room,
}

impl<'a> List<'a> {
    fn of(what: String, room: &'a Room) -> Self {
        Self { what, namespace: None, fields: None, bytes: LIST_BYTES, room }
    }
}

/// The part of the cluster that a plan depends on, as it was read.
pub(super) struct Found {
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    budgets: Vec<PodDisruptionBudget>,
    unready: Vec<Pod>,
    /// Namespaces whose unready pods were left out.
    unread: BTreeSet<String>,
    missing_daemon_sets: BTreeSet<String>,
    /// Lists that were too large.
    left_out: Vec<String>,
}

impl Found {
    /// Returns the sight of a plan, and the lists that were left out. It compares each selector with each
    /// unready pod, which takes time.
    pub(super) fn into_sight(self) -> (DrainSight, Vec<String>) {
        let mut surroundings = Surroundings::new(self.budgets, self.unready);
        surroundings.unread = self.unread;
        let sight = DrainSight {
            nodes: self.nodes,
            pods: self.pods,
            surroundings,
            missing_daemon_sets: self.missing_daemon_sets,
        };
        (sight, self.left_out)
    }
}

/// Returns a list, or leaves one out that is too large.
fn or_left_out<K>(
    list: Result<Vec<K>, SightError>,
    left_out: &mut Vec<String>,
) -> Result<Vec<K>, SightError> {
    match list {
        Err(SightError::TooLarge { what }) => {
            left_out.push(what);
            Ok(Vec::new())
        }
        list => list,
    }
}

impl<'a> Reading<'a> {
    /// Returns a reader with that client. `decoding` is one lock for all plans.
    pub(super) fn new(client: &'a Client, decoding: &'a Mutex<()>) -> Self {
        Self {
            client,
            decoding,
            nodes: Room::new(MAX_DRAINED_NODES, 32 << 20),
            pods: Room::new(10_000, 32 << 20),
            unready: Room::new(2_000, 8 << 20),
            budgets: Room::new(5_000, 4 << 20),
        }
    }

    /// Reads the nodes of a drain, their pods, the budgets of the pods' namespaces, and the unready pods of
    /// those that have budgets.
    pub(super) async fn read(&self, drain: &NodeEvacuationSpec) -> Result<Found, SightError> {
        let nodes = self.nodes(&drain.nodes).await?;
        let names: Vec<String> = nodes.iter().filter_map(|node| node.metadata.name.clone()).collect();
        let pods = stream::iter(names).map(|node| self.pods_on(node)).buffered(READS);
        let pods: Vec<Pod> = pods.try_collect::<Vec<_>>().await?.into_iter().flatten().collect();
        let namespaces: BTreeSet<_> = pods.iter().filter_map(|pod| pod.metadata.namespace.clone()).collect();
        let budgets = stream::iter(namespaces).map(|namespace| self.budgets_of(namespace));
        let mut left_out = Vec::new();
        let mut kept: Vec<PodDisruptionBudget> = Vec::new();
        for list in budgets.buffered(BUDGET_READS).collect::<Vec<_>>().await {
            kept.extend(or_left_out(list, &mut left_out)?);
        }
        let budgets = kept;
        let guarded: BTreeSet<_> = budgets.iter().filter_map(|b| b.metadata.namespace.clone()).collect();
        let unready = stream::iter(guarded.clone()).map(|namespace| self.unready_of(namespace));
        let (mut kept, mut unread) = (Vec::new(), BTreeSet::new());
        for (namespace, list) in guarded.into_iter().zip(unready.buffered(READS).collect::<Vec<_>>().await) {
            let read = left_out.len();
            kept.extend(or_left_out(list, &mut left_out)?);
            if left_out.len() > read {
                unread.insert(namespace);
            }
        }
        let unready = kept;
        let daemon_sets: BTreeSet<String> = pods.iter().filter_map(daemon_set_key).collect();
        let missing = stream::iter(daemon_sets).map(|key| self.missing(key)).buffered(READS);
        let missing_daemon_sets = missing.try_collect::<Vec<_>>().await?.into_iter().flatten().collect();
        Ok(Found { nodes, pods, budgets, unready, unread, missing_daemon_sets, left_out })
    }

    async fn nodes(&self, wanted: &NodeSelection) -> Result<Vec<Node>, SightError> {
        let Some(selector) = &wanted.selector else {
            let named = stream::iter(wanted.names.clone()).map(|name| self.node(name));
            let nodes: Vec<Option<Node>> = named.buffered(READS).try_collect().await?;
            return Ok(nodes.into_iter().flatten().collect());
        };
        let Some(selector) = PackedSelector::of(selector) else { return Ok(Vec::new()) };
        let mut left = MAX_DRAINED_NODES;
        self.list(&List::of("the nodes".to_owned(), &self.nodes), |node: &Node| {
            let labels = node.metadata.labels.clone().unwrap_or_default();
            let is_picked = left > 0 && selector.selects(&labels);
            left = left.saturating_sub(usize::from(is_picked));
            is_picked
        })
        .await
    }

    async fn node(&self, name: String) -> Result<Option<Node>, SightError> {
        let what = format!("node {name}");
        let api: Api<Node> = Api::all(self.client.clone());
        let Some(mut node) = api.get_opt(&name).await.map_err(|error| unread(&what, error))? else {
            return Ok(None);
        };
        project_node(&mut node);
        if self.nodes.take(&node) { Ok(Some(node)) } else { Err(SightError::TooLarge { what }) }
    }

    async fn pods_on(&self, node: String) -> Result<Vec<Pod>, SightError> {
        let list = List::of(format!("the pods of node {node}"), &self.pods);
        let list = List { fields: Some(format!("spec.nodeName={node}")), ..list };
        self.list(&list, |_: &Pod| true).await
    }

    async fn budgets_of(&self, namespace: String) -> Result<Vec<PodDisruptionBudget>, SightError> {
        let list = List::of(format!("the poddisruptionbudgets of namespace {namespace}"), &self.budgets);
        let list = List { namespace: Some(&namespace), bytes: budgets::BYTES, ..list };
        self.list(&list, |_: &PodDisruptionBudget| true).await
    }

    async fn unready_of(&self, namespace: String) -> Result<Vec<Pod>, SightError> {
        let list = List::of(format!("the pods of namespace {namespace}"), &self.unready);
        let list = List { namespace: Some(&namespace), ..list };
        self.list(&list, Surroundings::is_unready).await
    }

    /// Returns the key of a DaemonSet that does not exist.
    async fn missing(&self, key: String) -> Result<Option<String>, SightError> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let is_there = exists::<DaemonSet>(self.client, namespace, name).await;
        let is_there = is_there.map_err(|error| unread(&format!("daemonset {key}"), error))?;
        Ok((!is_there).then_some(key))
    }

    /// Reads a list, and keeps the objects that `keeps` accepts.
    async fn list<K>(&self, list: &List<'_>, mut keeps: impl FnMut(&K) -> bool) -> Result<Vec<K>, SightError>
    where
        K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned,
        Planned: Projection<K>,
    {
        let mut params =
            ListParams { field_selector: list.fields.clone(), ..ListParams::default().limit(PAGE) };
        let (mut kept, mut left) = (Vec::new(), list.bytes);
        loop {
            let size = params.limit.unwrap_or(PAGE);
            let (page, bytes) = match self.page::<K>(list.namespace, &params, left.min(PAGE_BYTES)).await {
                Err(ReadError::TooLarge(_)) if size > 1 => {
                    params.limit = Some(size / 4 + 1);
                    continue;
                }
                Err(ReadError::TooLarge(_)) => return Err(SightError::TooLarge { what: list.what.clone() }),
                page => page.map_err(|error| unread(&list.what, error))?,
            };
            left = left.saturating_sub(bytes);
            params.limit = Some(PAGE.min(2 * size));
            for object in page.items.into_iter().map(Projected::into_inner).filter(&mut keeps) {
                if !list.room.take(&object) {
                    return Err(SightError::TooLarge { what: list.what.clone() });
                }
                kept.push(object);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(kept),
            }
        }
    }

    /// Reads a page of at most that many bytes. Returns their number as well.
    async fn page<K>(
        &self,
        namespace: Option<&str>,
        params: &ListParams,
        most: usize,
    ) -> Result<(ObjectList<Projected<K, Planned>>, usize), ReadError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned,
        Planned: Projection<K>,
    {
        let text = list_text::<K>(self.client, namespace, params, most).await?;
        let _decoding = self.decoding.lock().await;
        Ok((serde_json::from_slice(&text).map_err(ReadError::Decode)?, text.len()))
    }
}

fn unread(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> SightError {
    SightError::Read { what: what.to_owned(), source: Box::new(error) }
}
