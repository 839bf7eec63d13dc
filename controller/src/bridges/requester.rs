//! Bridges that ask for the pods of a node, for objects of a foreign kind that a finalizer holds.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::TimeDelta;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Resource, ResourceExt, core::DynamicObject};
use serde_json::json;
use tokio::{sync::OnceCell, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    BridgeOptions,
    foreign::{Foreign, ForeignKind},
    text::text,
};
use crate::{
    builtin::states,
    cluster::{
        CallError, Cluster, ClusterEvent, Feature, Kind, Notice, ObjectKey, Requeue, WorkQueue,
        WorkerSettings, call, due, node_name, pod_key, user_name,
    },
};

/// Number of objects that a bridge works on at once.
const WORKERS: usize = 4;
/// Pause before another look at what nothing tells of.
pub(super) const LOOK_AGAIN: TimeDelta = TimeDelta::seconds(30);
/// Pause before another look at requests that are taken back.
const WITHDRAWING: TimeDelta = TimeDelta::seconds(2);

/// The objects of one foreign kind, and the drains that were opened for them.
pub(super) struct Requests {
    pub(super) cluster: Cluster,
    pub(super) foreign: Arc<Foreign>,
    /// Time from a request to its deadline.
    pub(super) deadline: Option<TimeDelta>,
    finalizer: &'static str,
    /// Keys of objects, and the empty key for requests whose object is gone.
    queue: Arc<WorkQueue<ObjectKey>>,
    user: OnceCell<String>,
}

impl Requests {
    /// Returns the objects of a kind, none of which is known yet.
    pub(super) fn new(
        cluster: &Cluster,
        options: &BridgeOptions,
        kind: &'static ForeignKind,
        finalizer: &'static str,
    ) -> Self {
        let queue = Arc::new(WorkQueue::default());
        let keys = Arc::clone(&queue);
        let foreign = Foreign::new(cluster, kind, move |change| {
            keys.add_all(change.new.is_none().then(orphans));
            keys.add(change.key.clone());
        });
        let (cluster, deadline) = (cluster.clone(), options.bridge_deadline);
        Self { cluster, foreign, deadline, finalizer, queue, user: OnceCell::new() }
    }

    /// Returns true for an object that the finalizer holds.
    pub(super) fn hold(&self, object: &DynamicObject) -> bool {
        object.finalizers().iter().any(|known| known == self.finalizer)
    }

    async fn set_held(&self, object: &DynamicObject, held: bool) -> Result<(), CallError> {
        let mut finalizers = object.finalizers().to_vec();
        finalizers.retain(|known| known != self.finalizer);
        finalizers.extend(held.then(|| self.finalizer.to_owned()));
        self.foreign.merge(object, json!({"metadata": {"finalizers": finalizers}})).await
    }

    /// Returns the name of the controller's user, which owns its entries.
    pub(super) async fn user(&self) -> Result<&str, CallError> {
        Ok(self.user.get_or_try_init(|| user_name(&self.cluster.client)).await?.as_str())
    }

    /// Publishes an Event on an object.
    pub(super) fn tell(&self, object: &DynamicObject, notice: Notice) {
        self.cluster.events.send_about(object.object_ref(self.foreign.resource()), notice);
    }

    /// Returns the next look after a pause.
    pub(super) fn again(&self, pause: TimeDelta) -> Requeue {
        let now = self.cluster.clock.now();
        Requeue::At(due(now + pause, now))
    }

    /// Returns the node of a name. The API is read for one that the watch has not shown.
    pub(super) async fn node(&self, name: &str) -> Result<Option<Arc<Node>>, CallError> {
        let known = self.cluster.view.index().node(name);
        if known.is_some() || name.is_empty() {
            return Ok(known);
        }
        let nodes: Api<Node> = Api::all(self.cluster.client.clone());
        Ok(call(format!("read node {name}"), nodes.get_opt(name)).await?.map(Arc::new))
    }

    /// Returns the node whose pods, or whose Evacuations, an event concerns.
    fn node_of(&self, event: &ClusterEvent<'_>) -> Option<String> {
        let pod = match event {
            ClusterEvent::Node(change) => return Some(change.key.name.clone()),
            ClusterEvent::Pod(change) => change.new.clone().or_else(|| change.old.clone())?,
            ClusterEvent::Evacuation(change) => {
                self.cluster.view.index().pod(&pod_key(states(change).next()?))?
            }
            _ => return None,
        };
        node_name(&pod).map(str::to_owned)
    }

    /// Returns the keys of the objects that name a node.
    fn of_node(&self, node: &str) -> Vec<ObjectKey> {
        let mut all = self.foreign.all();
        all.retain(|object| text(object, "/spec/nodeName") == node);
        all.iter().map(|object| ObjectKey::of(object.as_ref())).collect()
    }
}

/// Returns the key under which a bridge looks for requests whose object is gone.
fn orphans() -> ObjectKey {
    ObjectKey::new("", "")
}

/// A bridge that asks for the pods of a node.
#[async_trait]
pub(super) trait Requester: Send + Sync + 'static {
    /// Name of the bridge in log lines.
    const NAME: &'static str;

    /// Returns the objects.
    fn requests(&self) -> &Requests;

    /// Returns true for an object that is complete, or on which the project's own controller acts.
    async fn is_over(&self, object: &DynamicObject) -> Result<bool, CallError>;

    /// Asks for the pods of an object that is held, and reports the progress.
    async fn ask(&self, object: &DynamicObject) -> Result<Requeue, CallError>;

    /// Takes the requests of an object back. Returns true when nothing is left that needs it.
    async fn take_back(&self, object: &DynamicObject) -> Result<bool, CallError>;

    /// Takes back requests other than drains whose object is gone without its finalizer.
    async fn take_back_orphans(&self) -> Result<(), CallError> {
        Ok(())
    }
}

#[async_trait]
impl<R: Requester> Feature for R {
    fn name(&self) -> &'static str {
        R::NAME
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::Evacuations, Kind::NodeEvacuations, Kind::Nodes, Kind::Pods]
    }

    fn follow(self: Arc<Self>, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
        self.requests().foreign.follow(stop, tasks);
    }

    fn is_required(&self) -> bool {
        false
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.requests().queue
    }

    fn workers(&self) -> WorkerSettings {
        WorkerSettings { count: WORKERS, ..WorkerSettings::default() }
    }

    fn handle(&self, event: &ClusterEvent<'_>) {
        let requests = self.requests();
        if let ClusterEvent::NodeEvacuation(change) = event {
            let sources = states(change).filter_map(|drain| requests.source(drain));
            requests.queue.add_all(sources.map(|(key, _)| key));
        }
        requests.queue.add_all(requests.node_of(event).into_iter().flat_map(|node| requests.of_node(&node)));
    }

    fn resync(&self) {
        let requests = self.requests();
        requests.queue.add_all(requests.foreign.all().iter().map(|object| ObjectKey::of(object.as_ref())));
        requests.queue.add(orphans());
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        let requests = self.requests();
        if *key == orphans() {
            requests.close_orphans().await?;
            return self.take_back_orphans().await.map(|()| Requeue::OnEvent);
        }
        let Some(object) = requests.foreign.get(key) else { return Ok(Requeue::OnEvent) };
        let over = object.metadata.deletion_timestamp.is_some() || self.is_over(&object).await?;
        match (over, requests.hold(&object)) {
            (false, true) => return self.ask(&object).await,
            (false, false) => requests.set_held(&object, true).await?,
            (true, true) if self.take_back(&object).await? => requests.set_held(&object, false).await?,
            (true, true) => return Ok(requests.again(WITHDRAWING)),
            (true, false) => {}
        }
        // A write of the object queues its key.
        Ok(Requeue::OnEvent)
    }

    fn is_expected(&self, error: &CallError) -> bool {
        matches!(error.code(), 404 | 409)
    }
}
