//! Bridges that ask for the pods of a node, for objects of a foreign kind that a finalizer holds.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use chrono::TimeDelta;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Resource, ResourceExt, core::DynamicObject};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{
    BridgeOptions, Watcher,
    drains::{Outcome, Progress},
    foreign::{Foreign, ForeignKind, find},
    text::text,
};
use crate::{
    builtin::states,
    cluster::{
        CallError, Cluster, ClusterEvent, Notice, ObjectKey, Requeue, WorkQueue, due, lock, node_name,
        pod_key, user_name,
    },
};

/// Pause before another look at what nothing tells of.
const LOOK_AGAIN: TimeDelta = TimeDelta::seconds(30);
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
    /// UIDs of the objects that an Event has named since the last resync.
    told: Mutex<HashSet<String>>,
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
        Self { cluster, foreign, deadline, finalizer, queue, user: OnceCell::new(), told: Mutex::default() }
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

    /// Returns the node of a name. The API is read for one that the watch has not shown.
    pub(super) async fn node(&self, name: &str) -> Result<Option<Arc<Node>>, CallError> {
        let known = self.cluster.view.index().node(name);
        find(known, &Api::all(self.cluster.client.clone()), name).await
    }

    /// Publishes an Event on an object, once until the next resync.
    pub(super) fn tell_once(&self, object: &DynamicObject, notice: Notice) {
        if lock(&self.told).insert(object.uid().unwrap_or_default()) {
            self.tell(object, notice);
        }
    }

    fn tell(&self, object: &DynamicObject, notice: Notice) {
        self.cluster.events.send_about(object.object_ref(self.foreign.resource()), notice);
    }

    /// Writes a change of the status, and tells of an end.
    async fn report(&self, object: &DynamicObject, told: Progress, change: Value) -> Result<(), CallError> {
        self.foreign.merge(object, json!({"status": change})).await?;
        match told.outcome {
            Outcome::Complete => self.tell(object, Notice::normal(told.reason, told.message)),
            Outcome::Failed => self.tell(object, Notice::warning(told.reason, told.message)),
            Outcome::Asking | Outcome::Waiting => {}
        }
        Ok(())
    }

    fn again(&self, pause: TimeDelta) -> Requeue {
        let now = self.cluster.clock.now();
        Requeue::At(due(now + pause, now))
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
        all.retain(|object| node_of(object) == node);
        all.iter().map(|object| ObjectKey::of(object.as_ref())).collect()
    }
}

/// Progress of the requests for an object, if there is anything to report.
pub(super) type Asked = Result<Option<Progress>, CallError>;

/// Returns the name of the node that an object names.
pub(super) fn node_of(object: &DynamicObject) -> &str {
    text(&object.data, "/spec/nodeName")
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

    /// Asks for the pods of an object that is held. `None` when there is nothing to report.
    async fn ask(&self, object: &DynamicObject) -> Asked;

    /// Returns the change of the object's status that shows a progress. `None` when the status shows it.
    fn change(&self, object: &DynamicObject, progress: &Progress) -> Option<Value>;

    /// Takes the requests of an object back. Returns true when nothing is left that needs it.
    async fn take_back(&self, object: &DynamicObject) -> Result<bool, CallError>;

    /// Takes back requests other than drains whose object is gone without its finalizer.
    async fn take_back_orphans(&self) -> Result<(), CallError> {
        Ok(())
    }
}

#[async_trait]
impl<R: Requester> Watcher for R {
    const NAME: &'static str = R::NAME;

    fn foreign(&self) -> Vec<&Arc<Foreign>> {
        vec![&self.requests().foreign]
    }

    fn keys(&self) -> &WorkQueue<ObjectKey> {
        &self.requests().queue
    }

    fn observe(&self, event: &ClusterEvent<'_>) {
        let requests = self.requests();
        if let ClusterEvent::NodeEvacuation(change) = event {
            let sources = states(change).filter_map(|drain| requests.source(drain));
            requests.queue.add_all(sources.map(|(key, _)| key));
        }
        requests.queue.add_all(requests.node_of(event).into_iter().flat_map(|node| requests.of_node(&node)));
    }

    fn queue_all(&self) {
        let requests = self.requests();
        requests.queue.add_all(requests.foreign.all().iter().map(|object| ObjectKey::of(object.as_ref())));
        requests.queue.add(orphans());
        lock(&requests.told).clear();
    }

    async fn work(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        let requests = self.requests();
        if *key == orphans() {
            requests.close_orphans().await?;
            return self.take_back_orphans().await.map(|()| Requeue::OnEvent);
        }
        let Some(object) = requests.foreign.get(key) else { return Ok(Requeue::OnEvent) };
        let over = object.metadata.deletion_timestamp.is_some() || self.is_over(&object).await?;
        match (over, requests.hold(&object)) {
            (false, true) => {
                if let Some(progress) = self.ask(&object).await?
                    && let Some(change) = self.change(&object, &progress)
                {
                    requests.report(&object, progress, change).await?;
                }
                return Ok(requests.again(LOOK_AGAIN));
            }
            (false, false) => requests.set_held(&object, true).await?,
            (true, true) if self.take_back(&object).await? => requests.set_held(&object, false).await?,
            (true, true) => return Ok(requests.again(WITHDRAWING)),
            (true, false) => {}
        }
        // A write of the object queues its key.
        Ok(Requeue::OnEvent)
    }
}
