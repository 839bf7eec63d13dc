//! DrainRequests of NVSentinel: the bridge takes the place of a drain plugin.
//!
//! # Flow
//!
//! A DrainRequest gets a finalizer. One that lists pods becomes one entry for each listed pod. One without a
//! list becomes a NodeEvacuation, which leaves the cordon to NVSentinel. The condition `DrainComplete` ends
//! it, and the finalizer goes at once. A deletion before that withdraws the requests.
//!
//! # Guarantees
//!
//! `DrainComplete` is True only when no listed pod is left on the node, which a live read confirms.
//! NVSentinel may reboot the node then. A deleted or failed request is never complete. Requests are keyed by
//! the DrainRequest's UID. At most 500 pods of one request are asked at once.

mod conditions;
mod entries;
mod pods;
mod request;

use std::sync::Arc;

use async_trait::async_trait;
use chrono::TimeDelta;
use evacuation_api::{
    CordonPolicy, DrainConditionType, DrainVerdict, LateRule, NodeEvacuation, NodeEvacuationSpec,
};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    core::{DynamicObject, GroupVersionKind},
};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::{
    conditions::State,
    entries::Entries,
    request::{ENTRY_PREFIX, REASON, Request, entry_name, is_quarantined},
};
use super::{
    BridgeOptions, again,
    drains::{Drain, Drains},
    foreign::{Foreign, Observer, is_held},
    orphans,
};
use crate::cluster::{
    CallError, Change, Cluster, ClusterEvent, EventSink, Feature, Kind, Notice, ObjectKey, Requeue,
    ServerClock, View, WorkQueue, WorkerSettings, call, node_name,
};

/// Finalizer that holds a DrainRequest until it is complete, or its requests are withdrawn.
const FINALIZER: &str = "evacuation.dev/drain-request";
/// Beginning of the finalizers of other drain plugins.
const PLUGINS: &str = "nvsentinel.nvidia.com/";
/// Number of DrainRequests that are worked on at once.
const WORKERS: usize = 4;
/// Pause before another look at what nothing tells of.
const LOOK_AGAIN: TimeDelta = TimeDelta::seconds(30);
/// Pause before another look at acknowledgements.
const ACKNOWLEDGING: TimeDelta = TimeDelta::seconds(2);

/// The feature that serves DrainRequests. Its keys are DrainRequests, and the empty key for their orphans.
pub(crate) struct DrainRequests {
    client: Client,
    view: Arc<View>,
    clock: Arc<ServerClock>,
    events: EventSink,
    foreign: Arc<Foreign>,
    drains: Drains,
    entries: Entries,
    deadline: Option<TimeDelta>,
    queue: WorkQueue<ObjectKey>,
}

impl DrainRequests {
    /// Returns the feature.
    pub(crate) fn new(cluster: &Cluster, options: &BridgeOptions) -> Arc<Self> {
        let kind = GroupVersionKind::gvk("nvsentinel.nvidia.com", "v1alpha1", "DrainRequest");
        let foreign = Foreign::new(cluster, &kind, "drainrequests");
        Arc::new(Self {
            client: cluster.client.clone(),
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            events: cluster.events.clone(),
            drains: Drains::new(cluster, &foreign, "nvsentinel", options),
            entries: Entries::new(cluster),
            deadline: options.bridge_deadline,
            foreign,
            queue: WorkQueue::default(),
        })
    }

    /// Asks for the pods of a request, and reports the progress.
    async fn serve(&self, object: &DynamicObject) -> Result<Requeue, CallError> {
        let Some(request) = Request::of(object) else {
            return self.report(object, &State::failed("Unreadable", "the spec cannot be read")).await;
        };
        let name = &request.node_name;
        let Some(node) = self.node(name).await? else {
            return self
                .report(object, &State::complete("NodeGone", &format!("node {name} does not exist")))
                .await;
        };
        if !is_quarantined(&node) {
            return self.suspend(object, name).await;
        }
        let state = if request.pods_to_drain.is_some() {
            self.ask_for_pods(object, &request).await?
        } else {
            match self.drains.open(object, || self.spec(&request)).await? {
                Drain::Opened => return Ok(Requeue::Now),
                Drain::Open(drain) => progress(&drain),
                Drain::Dismissed => State::failed("DrainDeleted", "the drain was deleted"),
                Drain::Rejected(why) => State::waiting("Rejected", &why),
            }
        };
        self.report(object, &state).await?;
        Ok(if state.is_complete() { Requeue::Now } else { again(&self.clock, LOOK_AGAIN) })
    }

    /// Takes back the requests for a node that is in service: the DrainRequest is stale.
    async fn suspend(&self, object: &DynamicObject, node: &str) -> Result<Requeue, CallError> {
        let message = format!("node {node} is neither cordoned nor in quarantine");
        self.entries.withdraw(&entry_name(object)).await?;
        if self.drains.get(object).is_some() {
            self.drains.close(object).await?;
        }
        self.report(object, &State::waiting("NotQuarantined", &message)).await
    }

    /// Returns the spec of the drain of a request without a list. NVSentinel has cordoned the node, and an
    /// uncordon by others would cancel its event.
    fn spec(&self, request: &Request) -> NodeEvacuationSpec {
        let mut spec = self.drains.spec(&request.node_name, REASON, &request.message());
        spec.cordon = Some(CordonPolicy::Never);
        spec.pods.late = Some(LateRule::Skip);
        spec
    }

    /// Writes the conditions if they changed. A complete request is let go at once: one that lingers would
    /// count for the node's next health event.
    async fn report(&self, object: &DynamicObject, state: &State) -> Result<Requeue, CallError> {
        let Some(conditions) = state.conditions(object, self.clock.now()) else {
            return Ok(Requeue::OnEvent);
        };
        self.foreign.set_status(object, &json!({"conditions": conditions})).await?;
        let note = format!("{}: {}", state.reason(), state.message());
        if state.is_complete() {
            self.events.send_about(self.foreign.reference(object), Notice::normal("DrainComplete", note));
        } else if state.has_failed() {
            self.events.send_about(self.foreign.reference(object), Notice::warning("DrainFailed", note));
        }
        Ok(if state.is_complete() { Requeue::Now } else { Requeue::OnEvent })
    }

    /// Takes everything back, and lets the object go.
    async fn end(&self, object: &DynamicObject) -> Result<Requeue, CallError> {
        // The pods of a complete one are gone: a withdrawal would cancel what is about to end.
        if !conditions::is_complete(object) && !self.entries.withdraw(&entry_name(object)).await? {
            return Ok(again(&self.clock, ACKNOWLEDGING));
        }
        // A drain that is complete holds nothing: its own finalizer sees to its end.
        if !self.drains.close(object).await? && !conditions::is_complete(object) {
            return Ok(Requeue::OnEvent);
        }
        self.foreign.release(object, FINALIZER).await?;
        Ok(Requeue::OnEvent)
    }

    /// Returns the node of a name. The API is read for one that the watch has not shown.
    async fn node(&self, name: &str) -> Result<Option<Arc<Node>>, CallError> {
        let known = self.view.index().node(name);
        if known.is_some() {
            return Ok(known);
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        Ok(call(format!("read node {name}"), nodes.get_opt(name)).await?.map(Arc::new))
    }

    fn requests_of_node(&self, node: &str) -> Vec<ObjectKey> {
        let of_node = |object: &&Arc<DynamicObject>| {
            object.data.pointer("/spec/nodeName").and_then(|name| name.as_str()) == Some(node)
        };
        self.foreign.all().iter().filter(of_node).map(|object| ObjectKey::of(object.as_ref())).collect()
    }
}

/// Returns the state that follows from a drain.
fn progress(drain: &NodeEvacuation) -> State {
    let status = drain.status.clone().unwrap_or_default();
    let blocker = status.blockers.first();
    let message = blocker.map(|first| first.message.clone()).or(status.message.clone()).unwrap_or_default();
    if status.is_true(DrainConditionType::Drained) {
        State::complete("DrainComplete", &message)
    } else if status.is_true(DrainConditionType::Failed) {
        State::failed("DrainFailed", &message)
    } else if status.verdict == Some(DrainVerdict::Stuck) {
        State::in_progress("Stuck", &message)
    } else {
        let (gone, total) = (status.pods.gone, status.pods.total);
        State::in_progress("Draining", &format!("{gone} of {total} pods are gone"))
    }
}

impl Observer for DrainRequests {
    fn observe(&self, change: &Change<DynamicObject>) {
        if change.new.is_none() {
            self.queue.add(orphans());
        }
        self.queue.add(change.key.clone());
    }
}

#[async_trait]
impl Feature for DrainRequests {
    fn name(&self) -> &'static str {
        "bridge of DrainRequests"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::Evacuations, Kind::NodeEvacuations, Kind::Nodes, Kind::Pods]
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
        match event {
            ClusterEvent::NodeEvacuation(_) => self.queue.add_all(self.drains.key_of(event)),
            ClusterEvent::Node(change) => {
                let state = |node: &Option<Arc<Node>>| node.as_deref().map(is_quarantined);
                if state(&change.old) != state(&change.new) {
                    self.queue.add_all(self.requests_of_node(&change.key.name));
                }
            }
            ClusterEvent::Pod(Change { old: Some(pod), new: None, .. }) => {
                let node = node_name(pod).unwrap_or_default();
                self.queue.add_all(self.requests_of_node(node));
            }
            ClusterEvent::Evacuation(change) => {
                let states = [&change.old, &change.new].into_iter().flatten();
                let entries = states.flat_map(|evacuation| &evacuation.spec.requesters);
                let ours: Vec<&str> = entries
                    .map(|entry| entry.name.as_str())
                    .filter(|name| name.starts_with(ENTRY_PREFIX))
                    .collect();
                if !ours.is_empty() {
                    let all = self.foreign.all();
                    let named = all.iter().filter(|object| ours.contains(&entry_name(object).as_str()));
                    self.queue.add_all(named.map(|object| ObjectKey::of(object.as_ref())));
                }
            }
            _ => {}
        }
    }

    fn resync(&self) {
        self.queue.add_all(self.foreign.keys());
        self.queue.add(orphans());
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        if *key == orphans() {
            self.drains.close_orphans().await?;
            self.withdraw_orphans().await?;
            return Ok(Requeue::OnEvent);
        }
        let Some(object) = self.foreign.get(key) else { return Ok(Requeue::OnEvent) };
        let anothers = object.finalizers().iter().any(|finalizer| finalizer.starts_with(PLUGINS));
        let ends =
            anothers || object.metadata.deletion_timestamp.is_some() || conditions::is_complete(&object);
        match (ends, is_held(&object, FINALIZER)) {
            (true, true) => self.end(&object).await,
            (true, false) => Ok(Requeue::OnEvent),
            (false, true) => self.serve(&object).await,
            (false, false) => {
                self.foreign.hold(&object, FINALIZER).await?;
                Ok(Requeue::Now)
            }
        }
    }
}
