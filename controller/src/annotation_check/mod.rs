//! Warns about pod annotations that cannot be read, as soon as such a pod exists.
//!
//! # Flow
//!
//! A pod whose own annotations changed queues its namespace. A worker looks at the pods of the namespace, and
//! publishes a Warning Event on the owner of each pod with a problem: the object whose manifest has the
//! mistake.
//!
//! # Guarantees
//!
//! One owner gets one Event for the same problem while this process leads. At most [`MAX_OWNERS`] owners of a
//! namespace get one. Nothing else depends on this feature.

mod owner;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use evacuation_api::{
    GATE_OPEN_ANNOTATION, REFRESH_AFTER_ANNOTATION, REFRESH_AFTER_RESTARTS_ANNOTATION,
    REFRESH_ENABLED_ANNOTATION, annotation_problems,
};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};

use crate::cluster::{
    CallError, Change, Cluster, ClusterEvent, EventSink, Feature, Kind, Notice, ObjectKey, Requeue, View,
    WorkQueue, WorkerSettings, lock,
};
use owner::owner;

/// Maximum number of owners of one namespace that get an Event.
const MAX_OWNERS: usize = 50;
/// Pause of the worker after a namespace.
const REST: Duration = Duration::from_millis(200);
/// Reason of the Event.
const REASON: &str = "UnreadableAnnotation";

/// Annotations whose problems other features report: the gate, which also takes an Evacuation's name, and
/// refreshing.
const REPORTED_ELSEWHERE: [&str; 4] = [
    GATE_OPEN_ANNOTATION,
    REFRESH_AFTER_ANNOTATION,
    REFRESH_AFTER_RESTARTS_ANNOTATION,
    REFRESH_ENABLED_ANNOTATION,
];

/// Owners and their problems, by the UIDs of the owners.
type Problems = BTreeMap<String, (ObjectReference, String)>;

/// The feature that warns of annotations. Its keys are namespaces.
pub(crate) struct AnnotationCheck {
    view: Arc<View>,
    events: EventSink,
    watches: &'static [Kind],
    queue: WorkQueue<ObjectKey>,
    /// Problems that were reported, by namespace and by the owner's UID.
    reported: Mutex<HashMap<String, HashMap<String, String>>>,
}

impl AnnotationCheck {
    /// Returns the feature. It finds the Deployment of a pod if `replica_sets` are watched.
    pub(crate) fn new(cluster: &Cluster, replica_sets: bool) -> Arc<Self> {
        Arc::new(Self {
            view: Arc::clone(&cluster.view),
            events: cluster.events.clone(),
            watches: if replica_sets { &[Kind::Pods, Kind::ReplicaSets] } else { &[Kind::Pods] },
            queue: WorkQueue::default(),
            reported: Mutex::default(),
        })
    }

    fn wake(&self, namespace: &str) {
        self.queue.add(ObjectKey::new("", namespace));
    }

    /// Queues the namespace of a pod whose problem appeared, changed or went.
    fn observe(&self, change: &Change<Pod>) {
        let annotations =
            |pod: &Option<Arc<Pod>>| pod.as_ref().and_then(|pod| pod.metadata.annotations.clone());
        let (old, new) = (annotations(&change.old), annotations(&change.new));
        let problem = |pod: &Option<Arc<Pod>>| pod.as_ref().and_then(|pod| problem(pod));
        if old != new && (problem(&change.old).is_some() || problem(&change.new).is_some()) {
            self.wake(&change.key.namespace);
        }
    }

    /// The problem of each owner in a namespace: that of its newest pod with one.
    fn problems(&self, namespace: &str) -> Problems {
        let index = self.view.index();
        let mut pods: Vec<_> =
            index.pods_in(namespace).filter_map(|pod| Some((pod, problem(pod)?))).collect();
        pods.sort_by_key(|(pod, _)| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
        let mut problems = Problems::new();
        for (pod, problem) in pods {
            let owner = owner(pod, &index);
            let uid = owner.uid.clone().unwrap_or_default();
            if problems.len() < MAX_OWNERS || problems.contains_key(&uid) {
                problems.insert(uid, (owner, problem));
            }
        }
        problems
    }

    /// Records the problems of a namespace. Returns those that are new.
    fn unreported(&self, namespace: &str, problems: Problems) -> Vec<(ObjectReference, String)> {
        let mut reported = lock(&self.reported);
        let before = reported.remove(namespace).unwrap_or_default();
        if !problems.is_empty() {
            let now = problems.iter().map(|(uid, (_, problem))| (uid.clone(), problem.clone()));
            reported.insert(namespace.to_owned(), now.collect());
        }
        let new = problems.into_iter().filter(|(uid, (_, problem))| before.get(uid) != Some(problem));
        new.map(|(_, found)| found).collect()
    }
}

/// The problems of a pod's annotations in one text, if there are any. A pod on its way out is not looked at.
fn problem(pod: &Pod) -> Option<String> {
    let annotations = pod.metadata.annotations.as_ref().filter(|all| !all.is_empty())?;
    if pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let problems: Vec<_> = annotation_problems(annotations)
        .iter()
        .filter(|problem| !REPORTED_ELSEWHERE.contains(&problem.annotation.as_str()))
        .map(|problem| format!("pod {problem}"))
        .collect();
    (!problems.is_empty()).then(|| problems.join("; "))
}

#[async_trait]
impl Feature for AnnotationCheck {
    fn name(&self) -> &'static str {
        "annotation check"
    }

    fn watches(&self) -> &'static [Kind] {
        self.watches
    }

    fn is_required(&self) -> bool {
        false
    }

    fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    fn workers(&self) -> WorkerSettings {
        WorkerSettings { count: 1, ..WorkerSettings::default() }
    }

    fn handle(&self, event: &ClusterEvent<'_>) {
        if let ClusterEvent::Pod(change) = event {
            self.observe(change);
        }
    }

    fn resync(&self) {
        let index = self.view.index();
        for (key, _) in index.pods().filter(|(_, pod)| problem(pod).is_some()) {
            self.wake(&key.namespace);
        }
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Requeue, CallError> {
        let problems = self.problems(&key.name);
        for (owner, problem) in self.unreported(&key.name, problems) {
            self.events.send_about(owner, Notice::warning(REASON, problem));
        }
        Ok(Requeue::OnEvent)
    }

    fn rest(&self) -> Duration {
        REST
    }

    fn end_term(&self) {
        lock(&self.reported).clear();
    }
}

#[cfg(test)]
mod tests;
