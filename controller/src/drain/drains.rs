//! The feature: drains whose nodes or pods changed.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use evacuation_api::{
    ConditionType, DrainConditionType, DrainVerdict, DrainedNodePhase, Evacuation, NodeEvacuation,
    NodeEvacuationStatus,
};
use evacuation_protocol::{DrainPlan, DrainWarning, plan};
use k8s_openapi::api::core::v1::Node;
use kube::Resource;
use tokio::time::Instant;

use super::{
    acts::Acts,
    confirmation::{Confirmation, essence},
    daemon_sets::DaemonSets,
    departed::Departed,
    interest::Interest,
    metrics::DrainMetrics,
    orphans::{Orphans, known_drain},
    snapshot::Snapshot,
    urgency::{is_urgent, waits_for_record},
    volumes::Volumes,
};
use crate::cluster::{
    CallError, Change, Cluster, ClusterEvent, EventSink, Feature, Kind, Notice, ObjectKey, Requeue,
    ServerClock, View, WorkQueue, WorkerSettings, due, lock,
};

/// Shortest and longest pause after a failure.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));
/// Minimum time between two writes of a status of which only numbers and messages changed.
const SPACING: Duration = Duration::from_millis(500);
/// Ratio of the worker's rest to the time that planning took.
const REST: u32 = 6;
/// Maximum of the worker's rest. The verdict follows a change within a second.
const LONGEST_REST: Duration = Duration::from_millis(500);

/// The feature that drains nodes. Its keys are NodeEvacuations.
pub(crate) struct Drains {
    view: Arc<View>,
    clock: Arc<ServerClock>,
    events: EventSink,
    acts: Acts,
    interest: Interest,
    orphans: Orphans,
    daemon_sets: DaemonSets,
    volumes: Volumes,
    departed: Departed,
    confirmation: Confirmation,
    /// Drains that entries name and that the view did not show.
    suspected: Mutex<BTreeSet<ObjectKey>>,
    metrics: DrainMetrics,
    queue: WorkQueue<ObjectKey>,
    /// Time of the last write of each drain's status.
    written: Mutex<HashMap<ObjectKey, Instant>>,
    /// Time that the last plan took, without its reads.
    spent: Mutex<Duration>,
}

impl Drains {
    /// Returns the feature.
    pub(crate) fn new(cluster: &Cluster) -> Arc<Self> {
        Arc::new(Self {
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            events: cluster.events.clone(),
            acts: Acts::new(cluster),
            interest: Interest::default(),
            orphans: Orphans::new(cluster.client.clone(), Arc::clone(&cluster.view)),
            daemon_sets: DaemonSets::new(cluster.client.clone()),
            volumes: Volumes::new(cluster),
            departed: Departed::default(),
            confirmation: Confirmation::new(cluster),
            suspected: Mutex::default(),
            metrics: DrainMetrics::new(&cluster.metrics),
            queue: WorkQueue::default(),
            written: Mutex::default(),
            spent: Mutex::default(),
        })
    }

    /// Queues a drain. One that went, or that a later one of its name replaced, can have left entries behind.
    /// No Evacuation need change after it.
    fn observe_drain(&self, change: &Change<NodeEvacuation>) {
        let uid = |drain: &Option<Arc<NodeEvacuation>>| drain.as_ref().and_then(|d| d.metadata.uid.clone());
        if self.queue.is_open() && change.old.is_some() && uid(&change.old) != uid(&change.new) {
            lock(&self.suspected).insert(change.key.clone());
        }
        if change.new.as_deref().is_none_or(is_over) {
            self.departed.forget(&change.key);
        }
        self.queue.add(change.key.clone());
    }

    fn observe_evacuation(&self, change: &Change<Evacuation>) {
        match (&change.old, &change.new) {
            (_, Some(evacuation)) => self.suspect(evacuation),
            (Some(gone), None) => self.note_departed(gone),
            (None, None) => {}
        }
    }

    /// Keeps a failed Evacuation that is gone, until the drains in progress that asked by it have recorded
    /// its pod.
    fn note_departed(&self, gone: &Arc<Evacuation>) {
        let status = gone.status.as_ref();
        if !status.is_some_and(|status| status.is_true(ConditionType::Failed)) {
            return;
        }
        let index = self.view.index();
        let entries = status.iter().flat_map(|status| &status.requesters).map(|entry| entry.name.as_str());
        for drain in entries.filter_map(|entry| known_drain(&index, entry)).filter(|drain| !is_over(drain)) {
            self.departed.add(ObjectKey::of(drain.as_ref()), gone);
        }
    }

    fn observe_node(&self, change: &Change<Node>) {
        if change.old.as_deref().map(essence) == change.new.as_deref().map(essence) {
            return;
        }
        self.queue.add_all(self.interest.of_node(&change.key.name));
        // A selector may pick it now.
        let selects = |drain: &NodeEvacuation| drain.spec.nodes.selector.is_some();
        let index = self.view.index();
        self.queue.add_all(index.drains().filter(|(_, drain)| selects(drain)).map(|(key, _)| key.clone()));
    }

    /// Queues the drains that an Evacuation's entries name and that the view does not show.
    fn suspect(&self, evacuation: &Evacuation) {
        // The next term begins with the suspicions of all Evacuations.
        if !self.queue.is_open() {
            return;
        }
        for drain in self.orphans.suspects(evacuation) {
            lock(&self.suspected).insert(drain.clone());
            self.queue.add(drain);
        }
    }

    /// Takes entries back that name the drain of that key, if an Evacuation raised the suspicion.
    async fn withdraw_orphans(&self, key: &ObjectKey) -> Result<(), CallError> {
        if !lock(&self.suspected).remove(key) {
            return Ok(());
        }
        let withdrawn = self.orphans.withdraw(key, self.acts.requests()).await;
        if withdrawn.is_err() {
            lock(&self.suspected).insert(key.clone());
        }
        withdrawn
    }

    fn forget(&self, key: &ObjectKey) {
        self.interest.forget(key);
        self.departed.forget(key);
        self.acts.requests().rejections().retain(key, &BTreeSet::new());
        lock(&self.written).remove(key);
    }

    /// Writes the status if it changed. A change of numbers and messages alone waits until some time has
    /// passed since the last write. Returns the time to which it waits.
    async fn record(
        &self,
        key: &ObjectKey,
        drain: &NodeEvacuation,
        next: &NodeEvacuationStatus,
    ) -> Result<Written, CallError> {
        let stored = drain.status.clone().unwrap_or_default();
        if stored == *next {
            return Ok(Written::Unchanged);
        }
        let last = lock(&self.written).get(key).copied();
        let due = last.map_or_else(Instant::now, |last| last + SPACING);
        if !is_urgent(&stored, next) && Instant::now() < due {
            return Ok(Written::Later(due));
        }
        lock(&self.written).insert(key.clone(), Instant::now());
        self.acts.write_status(drain, next).await?;
        if stored.verdict != next.verdict {
            self.announce(drain, next);
        }
        if stored.nodes_omitted == 0 && next.nodes_omitted > 0 {
            let message = next.message.clone().unwrap_or_default();
            self.events.send_about(drain.object_ref(&()), Notice::warning("NodesOmitted", message));
        }
        Ok(Written::Now)
    }

    /// Publishes an Event when the verdict needs somebody, or is the last one.
    fn announce(&self, drain: &NodeEvacuation, next: &NodeEvacuationStatus) {
        let (message, verdict) = (next.message.clone().unwrap_or_default(), next.verdict.unwrap_or_default());
        let reason = verdict.as_str();
        let notice = match verdict {
            DrainVerdict::Stuck => Notice::warning(reason, message),
            DrainVerdict::Drained => Notice::normal(reason, message).ending(),
            DrainVerdict::Failed => Notice::warning(reason, message).ending(),
            DrainVerdict::Canceled => Notice::normal(reason, message),
            DrainVerdict::Waiting | DrainVerdict::Draining | DrainVerdict::Slow => return,
        };
        self.events.send_about(drain.object_ref(&()), notice);
    }
}

/// Returns the notice of a loss that the rules of a drain allow.
fn lost(loss: DrainWarning) -> Notice {
    let (reason, rule) = match loss {
        DrainWarning::LocalStorage => ("DataLost", "spec.pods.emptyDirData: Delete"),
        DrainWarning::MissingDaemonSet | DrainWarning::Unmanaged => ("PodLost", "spec.pods.unmanaged: Evict"),
    };
    Notice::warning(reason, format!("a pod is asked to move although {loss}, because of {rule}"))
}

/// Outcome of recording a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Unchanged,
    Now,
    Later(Instant),
}

/// Returns true for a drain that has ended or was deleted: it asks no pod any more.
fn is_over(drain: &NodeEvacuation) -> bool {
    let ended = drain.status.as_ref().is_some_and(|status| status.is_true(DrainConditionType::Finished));
    ended || drain.metadata.deletion_timestamp.is_some()
}

#[async_trait]
impl Feature for Drains {
    fn name(&self) -> &'static str {
        "drain"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::NodeEvacuations, Kind::Evacuations, Kind::Pods, Kind::Budgets, Kind::Nodes]
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    fn workers(&self) -> WorkerSettings {
        WorkerSettings { count: 4, pause: PAUSE }
    }

    fn rest(&self) -> Duration {
        (*lock(&self.spent) * REST).min(LONGEST_REST)
    }

    fn handle(&self, event: &ClusterEvent<'_>) {
        let namespace = match event {
            ClusterEvent::NodeEvacuation(change) => return self.observe_drain(change),
            ClusterEvent::Node(change) => return self.observe_node(change),
            ClusterEvent::Pod(change) => {
                let nodes = [&change.old, &change.new].into_iter().flatten();
                for node in nodes.filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref()) {
                    self.queue.add_all(self.interest.of_node(node));
                }
                &change.key.namespace
            }
            ClusterEvent::Evacuation(change) => {
                self.observe_evacuation(change);
                &change.key.namespace
            }
            ClusterEvent::Budget(change) => &change.key.namespace,
            ClusterEvent::NodeEvacuationRule(_)
            | ClusterEvent::Namespace(_)
            | ClusterEvent::ReplicaSet(_)
            | ClusterEvent::Affected(_) => return,
        };
        self.queue.add_all(self.interest.of_namespace(namespace));
    }

    fn resync(&self) {
        let (drains, evacuations) = {
            let index = self.view.index();
            let drains: Vec<ObjectKey> = index.drains().map(|(key, _)| key.clone()).collect();
            (drains, index.evacuations().map(|(_, e)| Arc::clone(e)).collect::<Vec<_>>())
        };
        self.queue.add_all(drains);
        for evacuation in &evacuations {
            self.suspect(evacuation);
        }
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        let orphans = self.withdraw_orphans(key).await;
        let (began, now) = (Instant::now(), self.clock.now());
        let known = self.view.index().drain(key);
        let Some(drain) = known else {
            self.forget(key);
            return orphans.map(|()| Requeue::OnEvent);
        };
        let rejections = self.acts.requests().rejections();
        let departed = self.departed.of(key);
        let snapshot = Snapshot::of(&self.view.index(), key, &drain, rejections, &departed);
        rejections.retain(key, &snapshot.rejectable());
        let daemon_sets = if is_over(&drain) { BTreeSet::new() } else { snapshot.daemon_sets() };
        let looking = began.elapsed();
        let missing = self.daemon_sets.missing(daemon_sets).await;
        let attach_failures =
            if is_over(&drain) { Vec::new() } else { self.volumes.failures(snapshot.unready(), now).await };
        let began = Instant::now();
        let world = snapshot.world(missing, attach_failures);
        let DrainPlan { status, acts, losses, wake_at } = plan(&drain, &world, now);
        // A deleted drain releases every node that it holds, also those that it has drained.
        let deleted = drain.metadata.deletion_timestamp.is_some();
        let concerns = |phase: DrainedNodePhase| !phase.is_final() || phase == DrainedNodePhase::Withdrawn;
        let nodes = status.nodes.iter().filter(|node| deleted || concerns(node.phase));
        self.interest.set(key, &nodes.map(|node| node.name.clone()).collect(), &snapshot.namespaces());
        *lock(&self.spent) = looking + began.elapsed();
        let confirmed = self.confirmation.confirms(&drain, &snapshot, &status).await;
        if matches!(confirmed, Ok(false)) {
            return Ok(Requeue::Now);
        }

        let released = acts.iter().any(|act| matches!(act, evacuation_protocol::DrainAct::ReleaseFinalizer));
        let mut written = Written::Unchanged;
        if confirmed.is_ok() {
            if !released {
                written = self.record(key, &drain, &status).await?;
            }
            self.departed.remove(key, &departed);
        }
        for loss in losses {
            self.events.send_about(drain.object_ref(&()), lost(loss));
        }
        // The acts follow from what is stored, so that a read that failed holds none up.
        let acts: Vec<_> = match written {
            Written::Later(_) => acts.into_iter().filter(|act| !waits_for_record(&drain, act)).collect(),
            Written::Unchanged | Written::Now => acts,
        };
        self.acts.carry_out(&drain, &acts).await?;
        confirmed?;
        orphans?;
        Ok(match written {
            // The acts that follow from what was written are planned with it.
            Written::Now => Requeue::Now,
            Written::Later(time) => Requeue::At(time),
            Written::Unchanged => wake_at.map(|time| due(time, now)).into(),
        })
    }

    fn collect(&self) {
        self.metrics.set(self.view.index().drains().map(|(_, drain)| drain.verdict()));
    }

    fn end_term(&self) {
        self.acts.requests().rejections().clear();
        lock(&self.written).clear();
        lock(&self.suspected).clear();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::testing::{cluster_with_api, cluster_without_api, not_found};

    #[tokio::test]
    async fn a_drain_that_went_is_suspected_although_no_evacuation_changes() {
        let drain = |uid: &str| {
            let drain = json!({"metadata": {"name": "d", "uid": uid}, "spec": {"nodes": {}}});
            Some(Arc::new(serde_json::from_value::<NodeEvacuation>(drain).unwrap()))
        };
        let table = [
            (None, drain("1"), false),
            (drain("1"), drain("1"), false),
            (drain("1"), None, true),
            (drain("1"), drain("2"), true),
        ];
        for (old, new, expected) in table {
            let drains = Drains::new(&cluster_without_api());
            let change = Change { key: ObjectKey::new("", "d"), old, new, missing: false };
            drains.handle(&ClusterEvent::NodeEvacuation(&change));
            assert_eq!(lock(&drains.suspected).contains(&change.key), expected, "{change:?}");
        }
    }

    /// A drain of one node on which the watch shows no pod.
    fn drain_of_an_empty_node() -> (Node, NodeEvacuation) {
        let node = json!({"metadata": {"name": "n", "uid": "n1", "resourceVersion": "1"}, "spec": {}});
        let time = "2026-01-01T00:00:00Z";
        let drained = json!({"name": "n", "uid": "n1", "phase": "Draining", "verdict": "Draining",
            "message": "m", "cordoned": "No", "pods": {}, "startTime": time});
        let drain = json!({
            "metadata": {"name": "d", "uid": "d", "resourceVersion": "1", "creationTimestamp": time},
            "spec": {"nodes": {"names": ["n"]}, "cordon": "Never"},
            "status": {"requester": {"user": "alice", "time": time}, "pods": {}, "nodes": [drained]},
        });
        (serde_json::from_value(node).unwrap(), serde_json::from_value(drain).unwrap())
    }

    #[tokio::test]
    async fn a_node_is_recorded_as_drained_only_when_the_api_lists_no_pod_on_it() {
        let late = json!({"metadata": {"namespace": "ns", "name": "late", "uid": "late", "resourceVersion": "2"},
            "spec": {"nodeName": "n", "containers": []}});
        for (items, expected) in [(vec![], vec!["GET pods", "PUT status"]), (vec![late], vec!["GET pods"])] {
            let pods = json!({"metadata": {}, "items": items});
            let (cluster, asked) = cluster_with_api(move |request, sent| match request.method.as_str() {
                "PUT" => (200, sent),
                _ if request.uri.path() == "/api/v1/pods" => (200, pods.clone()),
                _ => not_found(),
            });
            let (node, drain) = drain_of_an_empty_node();
            cluster.view.apply(node);
            cluster.view.apply(drain);
            let next = Drains::new(&cluster).reconcile(&ObjectKey::new("", "d")).await.unwrap();
            assert_eq!(next, Requeue::Now);
            assert_eq!(*lock(&asked), expected);
        }
    }

    #[tokio::test]
    async fn a_read_that_fails_does_not_keep_the_drain_from_its_acts() {
        let (cluster, asked) = cluster_with_api(|request, sent| match request.method.as_str() {
            "PATCH" => (200, sent),
            _ => (500, json!({"kind": "Status", "status": "Failure", "code": 500, "message": "no"})),
        });
        let (empty, drain) = drain_of_an_empty_node();
        let mut drain = serde_json::to_value(drain).unwrap();
        let mut other = drain["status"]["nodes"][0].clone();
        (other["name"], other["uid"]) = (json!("o"), json!("o1"));
        drain["spec"] = json!({"nodes": {"names": ["n", "o"]}});
        drain["status"]["nodes"].as_array_mut().unwrap().push(other);
        let mut other = empty.clone();
        (other.metadata.name, other.metadata.uid) = (Some("o".to_owned()), Some("o1".to_owned()));
        let mut cordoned = empty;
        cordoned.spec.get_or_insert_default().unschedulable = Some(true);
        cluster.view.apply(cordoned);
        cluster.view.apply(other);
        cluster.view.apply(serde_json::from_value::<NodeEvacuation>(drain).unwrap());
        let failed = Drains::new(&cluster).reconcile(&ObjectKey::new("", "d")).await;
        assert!(failed.is_err_and(|error| error.code() == 500));
        assert!(lock(&asked).contains(&"PATCH o".to_owned()), "{asked:?}");
    }
}
