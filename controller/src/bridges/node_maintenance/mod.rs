//! NodeMaintenance objects of medik8s, in a cluster that has the kind but not its operator.
//!
//! # Flow
//!
//! A NodeMaintenance gets a finalizer. The bridge takes medik8s' lease of the node and excludes the node from
//! remediation, and then opens one NodeEvacuation. Its progress becomes the NodeMaintenance's status. The
//! deletion of the NodeMaintenance deletes the NodeEvacuation, which withdraws the requests and uncordons the
//! node. The finalizer goes last.
//!
//! # Guarantees
//!
//! The bridge steps back from an object, and from a node, on which medik8s' operator acts. A cordon that was
//! there before stays. A NodeEvacuation that a user deletes is not opened again.

mod end;
mod exclusion;
mod status;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use chrono::TimeDelta;
use evacuation_api::is_dns_subdomain;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    core::{DynamicObject, GroupVersionKind},
};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::{
    exclusion::{Exclusion, Holder, RENEW_AFTER},
    status::{Status, is_withdrawn},
};
use super::{
    BridgeOptions, again,
    drains::{Drain, Drains},
    foreign::{Foreign, Observer, is_held},
    orphans,
};
use crate::cluster::{
    CallError, Change, Cluster, ClusterEvent, EventSink, Feature, Kind, Notice, ObjectKey, Requeue,
    ServerClock, View, WorkQueue, WorkerSettings, call, is_finished, lock,
};

/// Finalizer that holds a NodeMaintenance until its drain is taken back.
const FINALIZER: &str = "evacuation.dev/node-maintenance";
/// Finalizer of medik8s' operator.
const OPERATORS_FINALIZER: &str = "foregroundDeleteNodeMaintenance";
/// Pause before another look at what nothing tells of: a lease of others, a rejected drain.
const LOOK_AGAIN: TimeDelta = TimeDelta::seconds(30);
/// Number of NodeMaintenances that are worked on at once.
const WORKERS: usize = 4;

/// The feature that plays the operator. Its keys are NodeMaintenances, and the empty key for their orphans.
pub(crate) struct NodeMaintenances {
    nodes: Api<Node>,
    view: Arc<View>,
    clock: Arc<ServerClock>,
    events: EventSink,
    foreign: Arc<Foreign>,
    drains: Drains,
    exclusion: Exclusion,
    queue: WorkQueue<ObjectKey>,
    /// UIDs of the objects of the operator that an Event has named.
    left_alone: Mutex<BTreeSet<String>>,
}

impl NodeMaintenances {
    /// Returns the feature.
    pub(crate) fn new(cluster: &Cluster, options: &BridgeOptions) -> Arc<Self> {
        let kind = GroupVersionKind::gvk("nodemaintenance.medik8s.io", "v1beta1", "NodeMaintenance");
        let foreign = Foreign::new(cluster, &kind, "nodemaintenances");
        Arc::new(Self {
            nodes: Api::all(cluster.client.clone()),
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            events: cluster.events.clone(),
            drains: Drains::new(cluster, &foreign, "nodemaintenance", options),
            exclusion: Exclusion::new(cluster),
            foreign,
            queue: WorkQueue::default(),
            left_alone: Mutex::default(),
        })
    }

    fn tell(&self, object: &DynamicObject, notice: Notice) {
        self.events.send_about(self.foreign.reference(object), notice);
    }

    /// Drains the node, and reports the progress.
    async fn maintain(&self, object: &DynamicObject) -> Result<Requeue, CallError> {
        let before = Status::of(object);
        let drain = self.drains.get(object);
        if before.has_failed() && drain.as_ref().is_none_or(|drain| is_withdrawn(drain)) {
            self.leave_node(object, node_of(object)).await?;
            return Ok(Requeue::OnEvent);
        }
        let name = node_of(object);
        // The node of a drain cannot change.
        if let Some(drain) = drain.filter(|drain| drain.spec.nodes.names != [name]) {
            let next = before.failed("spec.nodeName was changed: it is immutable");
            self.report(object, &before, next).await?;
            self.drains.close(object).await?;
            for node in &drain.spec.nodes.names {
                self.leave_node(object, node).await?;
            }
            return Ok(Requeue::OnEvent);
        }
        let Some(node) = self.node(name).await? else {
            let error = format!("nodes {name:?} not found");
            return self.report(object, &before, before.failed(&error)).await;
        };
        let ended = before.has_failed() || before.has_succeeded();
        let holder = match self.exclusion.take(&node).await {
            // The namespace of the leases, or a right, is missing.
            Err(error) if !ended && matches!(error.code(), 403 | 404) => {
                let why = error.status().map(|status| status.message.as_str()).unwrap_or_default();
                let next = before.waiting(&format!("the node's lease cannot be taken: {why}"));
                self.report(object, &before, next).await?;
                return Ok(again(&self.clock, LOOK_AGAIN));
            }
            taken => taken?,
        };
        match holder {
            Holder::Us => {}
            Holder::Operator => return self.step_back(object).await,
            Holder::Other(holder) => return self.wait_for_lease(object, &before, &holder).await,
        }
        let reason =
            object.data.pointer("/spec/reason").and_then(|reason| reason.as_str()).unwrap_or_default();
        let wanted = || self.drains.spec(name, "NodeMaintenance", reason);
        let mut pause = RENEW_AFTER;
        let next = match self.drains.open(object, wanted).await? {
            Drain::Opened => {
                self.tell(object, Notice::normal("BeginMaintenance", format!("draining node {name}")));
                return Ok(Requeue::Now);
            }
            Drain::Open(drain) => {
                let (pending, on_node) = self.pods_on(name, drain.entry_name().as_deref());
                before.progress(&drain, &pending, on_node)
            }
            Drain::Dismissed if before.has_succeeded() => before.clone(),
            Drain::Dismissed => before.failed("the drain was deleted"),
            Drain::Rejected(why) => {
                pause = LOOK_AGAIN;
                before.waiting(&why)
            }
        };
        self.report(object, &before, next).await?;
        Ok(again(&self.clock, pause))
    }

    /// Reports that another controller holds the node's lease. A drain in progress is taken back: both would
    /// act on the node.
    async fn wait_for_lease(
        &self,
        object: &DynamicObject,
        before: &Status,
        holder: &str,
    ) -> Result<Requeue, CallError> {
        if before.has_succeeded() {
            return Ok(again(&self.clock, LOOK_AGAIN));
        }
        let error = format!("the node's lease is held by {holder}");
        let next = if self.drains.get(object).is_some() {
            self.drains.close(object).await?;
            before.failed(&error)
        } else {
            before.waiting(&error)
        };
        self.report(object, before, next).await?;
        Ok(again(&self.clock, LOOK_AGAIN))
    }

    /// Writes the status if anything but its time changed.
    async fn report(
        &self,
        object: &DynamicObject,
        before: &Status,
        mut next: Status,
    ) -> Result<Requeue, CallError> {
        if next == *before {
            return Ok(Requeue::OnEvent);
        }
        next.last_update = Some(self.clock.now().format("%Y-%m-%dT%H:%M:%SZ").to_string());
        self.foreign.set_status(object, &json!(next)).await?;
        let name = node_of(object);
        if next.has_succeeded() && !before.has_succeeded() {
            self.tell(object, Notice::normal("SucceedMaintenance", format!("node {name} is drained")));
        }
        if next.has_failed() && !before.has_failed() {
            self.tell(
                object,
                Notice::warning("FailedMaintenance", format!("node {name}: {}", next.last_error)),
            );
        }
        Ok(Requeue::OnEvent)
    }

    /// Returns the node of a name. The API is read for one that the watch has not shown.
    async fn node(&self, name: &str) -> Result<Option<Arc<Node>>, CallError> {
        let known = self.view.index().node(name);
        if known.is_some() || name.is_empty() {
            return Ok(known);
        }
        Ok(call(format!("read node {name}"), self.nodes.get_opt(name)).await?.map(Arc::new))
    }

    /// Returns the pods of a node with an active Evacuation of that entry, and the number of all its pods.
    fn pods_on(&self, node: &str, entry: Option<&str>) -> (Vec<ObjectKey>, usize) {
        let index = self.view.index();
        let keys: Vec<ObjectKey> = index.pods_on(node).map(|pod| ObjectKey::of(pod.as_ref())).collect();
        let asked = |key: &&ObjectKey| {
            let entries = index.evacuations_of(key).into_iter().filter(|known| !is_finished(known));
            entries
                .flat_map(|known| known.spec.requesters.clone())
                .any(|known| Some(known.name.as_str()) == entry)
        };
        let pending = keys.iter().filter(asked).take(status::MAX_PENDING).cloned().collect();
        (pending, keys.len())
    }
}

/// Returns the name of the node, or an empty text for one that no node can have.
fn node_of(object: &DynamicObject) -> &str {
    let name = object.data.pointer("/spec/nodeName").and_then(|name| name.as_str());
    name.filter(|name| is_dns_subdomain(name)).unwrap_or_default()
}

impl Observer for NodeMaintenances {
    fn observe(&self, change: &Change<DynamicObject>) {
        if let (Some(old), None) = (&change.old, &change.new) {
            lock(&self.left_alone).remove(&old.uid().unwrap_or_default());
            self.queue.add(orphans());
        }
        self.queue.add(change.key.clone());
    }
}

#[async_trait]
impl Feature for NodeMaintenances {
    fn name(&self) -> &'static str {
        "bridge of NodeMaintenances"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::NodeEvacuations, Kind::Evacuations, Kind::Nodes, Kind::Pods]
    }

    fn follow(self: Arc<Self>, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
        self.foreign.follow(Arc::clone(&self), stop, tasks);
    }

    fn is_required(&self) -> bool {
        false
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    fn workers(&self) -> WorkerSettings {
        WorkerSettings { count: WORKERS, ..WorkerSettings::default() }
    }

    fn handle(&self, event: &ClusterEvent<'_>) {
        self.queue.add_all(self.drains.key_of(event));
    }

    fn resync(&self) {
        self.queue.add_all(self.foreign.keys());
        self.queue.add(orphans());
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        if *key == orphans() {
            self.drains.close_orphans().await?;
            return Ok(Requeue::OnEvent);
        }
        let Some(object) = self.foreign.get(key) else { return Ok(Requeue::OnEvent) };
        if is_held(&object, OPERATORS_FINALIZER) {
            return self.step_back(&object).await;
        }
        match (object.metadata.deletion_timestamp.is_some(), is_held(&object, FINALIZER)) {
            (true, true) => self.end(&object).await,
            (true, false) => Ok(Requeue::OnEvent),
            (false, true) => self.maintain(&object).await,
            (false, false) if self.exclusion.is_operators(node_of(&object)).await? => {
                self.tell_of_operator(&object);
                Ok(again(&self.clock, LOOK_AGAIN))
            }
            (false, false) => {
                self.foreign.hold(&object, FINALIZER).await?;
                Ok(Requeue::Now)
            }
        }
    }
}
