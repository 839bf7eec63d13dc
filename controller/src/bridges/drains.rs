//! NodeEvacuations that a bridge opens, one for a foreign object.

use std::sync::Arc;

use evacuation_api::{
    DeadlineAction, DrainRequester, DrainVerdict, EmptyDirRule, NodeEvacuation, NodeEvacuationSpec,
    NodeSelection, PodRules, UnmanagedRule,
};
use kube::{Api, ResourceExt, api::PostParams, core::DynamicObject};
use serde_json::json;
use tracing::info;

use super::{
    foreign::{delete, find},
    requester::Requests,
    text::{fitting, is_rejection, refusal, unique_name},
};
use crate::cluster::{CallError, ObjectKey, call};

/// Annotation of a NodeEvacuation with the object for which it was opened: the plural with the group, the
/// namespace, the name and the UID, separated by slashes.
const SOURCE: &str = "bridge.evacuation.dev/opened-for";
/// Annotation of a foreign object with the name of the NodeEvacuation that was opened for it. One that is
/// missing then was deleted by a user, and is not opened again.
const OPENED: &str = "bridge.evacuation.dev/node-evacuation";
/// Number of blockers that are named in a message.
const NAMED_BLOCKERS: usize = 3;
/// Reason of a progress that nothing holds up.
pub(super) const DRAINING: &str = "Draining";
/// Reason of the failure after a user deleted the drain.
pub(super) const DELETED: &str = "DrainDeleted";

/// Outcome of the requests for a foreign object, until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// No pod is asked yet.
    Waiting,
    /// Pods are asked.
    Asking,
    /// The pods are gone.
    Complete,
    /// Pods stay, and nothing more is asked.
    Failed,
}

/// Progress of the requests for a foreign object.
pub(super) struct Progress {
    pub(super) outcome: Outcome,
    /// For machines.
    pub(super) reason: &'static str,
    /// For people.
    pub(super) message: String,
    /// The drain whose progress it is.
    pub(super) drain: Option<Arc<NodeEvacuation>>,
}

impl Progress {
    /// Returns a progress that no drain tells.
    pub(super) fn new(outcome: Outcome, reason: &'static str, message: &str) -> Self {
        Self { outcome, reason, message: fitting(message), drain: None }
    }

    /// Returns the progress that follows from the status of a drain.
    pub(super) fn of(drain: Arc<NodeEvacuation>) -> Self {
        let status = drain.status.clone().unwrap_or_default();
        let (outcome, reason) = match status.verdict() {
            DrainVerdict::Drained => (Outcome::Complete, "DrainComplete"),
            DrainVerdict::Failed => (Outcome::Failed, "DrainFailed"),
            DrainVerdict::Stuck => (Outcome::Asking, "Stuck"),
            DrainVerdict::Waiting | DrainVerdict::Draining | DrainVerdict::Slow | DrainVerdict::Canceled => {
                (Outcome::Asking, DRAINING)
            }
        };
        let mut message = status.message.unwrap_or_default();
        for blocker in status.blockers.iter().take(NAMED_BLOCKERS).filter(|_| reason == "Stuck") {
            let named = blocker.pod.as_ref().unwrap_or(&blocker.node);
            message = format!("{message}; {named}: {}", blocker.message);
        }
        Self { drain: Some(drain), ..Self::new(outcome, reason, &message) }
    }
}

impl Requests {
    /// Returns the spec of a drain of one node, as `kubectl drain --force --delete-emptydir-data` drains it.
    pub(super) fn drain_spec(&self, node: &str, reason: &str, message: &str) -> NodeEvacuationSpec {
        let message = fitting(message);
        NodeEvacuationSpec {
            nodes: NodeSelection { names: vec![node.to_owned()], ..NodeSelection::default() },
            requester: DrainRequester {
                reason: Some(reason.to_owned()),
                message: (!message.is_empty()).then_some(message),
                deadline_seconds: self.deadline.map(|deadline| deadline.num_seconds()),
                at_deadline: self.deadline.map(|_| DeadlineAction::Evict),
                ..DrainRequester::default()
            },
            pods: PodRules {
                empty_dir_data: Some(EmptyDirRule::Delete),
                unmanaged: Some(UnmanagedRule::Evict),
                ..PodRules::default()
            },
            phases: Vec::new(),
            max_parallel: None,
            cordon: None,
            paused: false,
            ttl_seconds_after_finished: None,
        }
    }

    /// Returns the drain of an object, as the watch shows it.
    pub(super) fn drain(&self, object: &DynamicObject) -> Option<Arc<NodeEvacuation>> {
        let drain = self.cluster.view.index().drain(&ObjectKey::new("", self.drain_name(object)))?;
        (self.source(&drain)?.1 == object.uid()?).then_some(drain)
    }

    /// Returns the progress of an object's drain. `None` when it was opened just now, or when the object has
    /// changed: its key is queued.
    pub(super) async fn open(
        &self,
        object: &DynamicObject,
        spec: NodeEvacuationSpec,
    ) -> Result<Option<Progress>, CallError> {
        let opened = object.annotations().contains_key(OPENED);
        match self.find_drain(object).await? {
            Some(drain) if drain.metadata.deletion_timestamp.is_none() => {
                if opened {
                    return Ok(Some(Progress::of(drain)));
                }
            }
            None if !opened => {
                // The watch can be late: the object may be gone, or a user may have deleted its drain.
                let live = self.foreign.read(&ObjectKey::of(object)).await?;
                if live.is_none_or(|live| live.resource_version() != object.resource_version()) {
                    return Ok(None);
                }
                match self.create_drain(object, spec).await {
                    Err(error) if is_rejection(&error) || is_taken(&error) => {
                        return Ok(Some(Progress::new(Outcome::Waiting, "Rejected", &refusal(&error))));
                    }
                    created => created?,
                }
            }
            _ => {
                return Ok(Some(Progress::new(Outcome::Failed, DELETED, "the drain was deleted")));
            }
        }
        let annotations = json!({OPENED: self.drain_name(object)});
        self.foreign.merge(object, json!({"metadata": {"annotations": annotations}})).await?;
        Ok(None)
    }

    /// Deletes the drain of an object. Returns true when it is gone: its requests are withdrawn then.
    pub(super) async fn close(&self, object: &DynamicObject) -> Result<bool, CallError> {
        let Some(drain) = self.find_drain(object).await? else { return Ok(true) };
        self.delete_drain(&drain).await?;
        Ok(false)
    }

    /// Deletes the drains whose foreign object is gone without its finalizer. A live read confirms it.
    pub(super) async fn close_orphans(&self) -> Result<(), CallError> {
        // A list that fails shows nothing of what is gone.
        if !self.foreign.is_listed() {
            return Ok(());
        }
        let user = self.user().await?;
        let drains: Vec<_> = self.cluster.view.index().drains().map(|(_, drain)| Arc::clone(drain)).collect();
        for drain in drains.into_iter().filter(|drain| is_of(drain, user)) {
            let Some((key, uid)) = self.source(&drain) else { continue };
            if self.foreign.find(&key, Some(&uid)).await?.is_none() {
                self.delete_drain(&drain).await?;
            }
        }
        Ok(())
    }

    /// Returns the key and the UID of the object for which a drain was opened. `None` for another kind.
    pub(super) fn source(&self, drain: &NodeEvacuation) -> Option<(ObjectKey, String)> {
        let source = drain.annotations().get(SOURCE)?.strip_prefix(&self.kind())?;
        let [namespace, name, uid] = source.split('/').collect::<Vec<_>>().try_into().ok()?;
        Some((ObjectKey::new(namespace, name), uid.to_owned()))
    }

    fn kind(&self) -> String {
        let resource = self.foreign.resource();
        format!("{}.{}/", resource.plural, resource.group)
    }

    fn drain_name(&self, object: &DynamicObject) -> String {
        format!("{}-{}", self.foreign.resource().kind.to_lowercase(), unique_name(object))
    }

    fn drains(&self) -> Api<NodeEvacuation> {
        Api::all(self.cluster.client.clone())
    }

    /// Returns the drain of an object. The watch may not have shown it yet, to a process that has just begun
    /// to lead.
    async fn find_drain(&self, object: &DynamicObject) -> Result<Option<Arc<NodeEvacuation>>, CallError> {
        let user = self.user().await?;
        if let Some(known) = self.drain(object) {
            return Ok(is_of(&known, user).then_some(known));
        }
        let live = find(None, &self.drains(), &self.drain_name(object)).await?;
        Ok(live.and_then(|live| {
            self.cluster.view.apply(Arc::unwrap_or_clone(live));
            self.drain(object).filter(|drain| is_of(drain, user))
        }))
    }

    async fn create_drain(&self, object: &DynamicObject, spec: NodeEvacuationSpec) -> Result<(), CallError> {
        self.cluster.leadership.check()?;
        let (name, key) = (self.drain_name(object), ObjectKey::of(object));
        let source = format!("{}{}/{}/", self.kind(), key.namespace, key.name);
        let mut drain = NodeEvacuation::new(&name, spec);
        drain.annotations_mut().insert(SOURCE.to_owned(), source + &object.uid().unwrap_or_default());
        let (drains, parameters) = (self.drains(), PostParams::default());
        let create = drains.create(&parameters, &drain);
        self.cluster.view.apply(call(format!("create nodeevacuation {name}"), create).await?);
        info!(drain = name, "opened for {}{key}", self.kind());
        Ok(())
    }

    async fn delete_drain(&self, drain: &NodeEvacuation) -> Result<(), CallError> {
        if drain.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        self.cluster.leadership.check()?;
        delete(&self.drains(), drain).await?;
        info!(drain = drain.name_any(), "closed");
        Ok(())
    }
}

/// Returns true when another user's drain has the name.
fn is_taken(error: &CallError) -> bool {
    error.status().is_some_and(|status| status.reason == "AlreadyExists")
}

/// Returns true for a drain that this user has opened. Others can write its annotations.
fn is_of(drain: &NodeEvacuation, user: &str) -> bool {
    let requester = drain.status.as_ref().and_then(|status| status.requester.as_ref());
    requester.is_some_and(|requester| requester.user == user)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{
        bridges::{BridgeOptions, foreign::ForeignKind},
        cluster::{
            lock,
            testing::{cluster_with_api, last, not_found},
        },
    };

    const KIND: ForeignKind = ForeignKind { gvk: ["x.io", "v1", "Thing"], spec: &[], status: &[] };

    #[tokio::test]
    async fn a_drain_is_opened_only_for_an_object_that_the_api_shows_as_the_watch_does() {
        let thing = |version: &str| {
            json!({"apiVersion": "x.io/v1", "kind": "Thing",
                "metadata": {"name": "t", "uid": "u", "resourceVersion": version}})
        };
        let opens = ["POST selfsubjectreviews", "GET thing-t-u", "GET t", "POST nodeevacuations", "PATCH t"];
        // What the API has for the object.
        for (live, expected) in [(Some("1"), opens.as_slice()), (Some("2"), &opens[..3]), (None, &opens[..3])]
        {
            let found = live.map(thing);
            let (cluster, asked) =
                cluster_with_api(move |request, sent| match (request.method.as_str(), last(request)) {
                    ("GET", "t") => found.clone().map_or_else(not_found, |found| (200, found)),
                    ("GET", _) => not_found(),
                    ("PATCH", _) => (200, found.clone().unwrap_or_default()),
                    _ => (201, sent),
                });
            let options = BridgeOptions { bridge: Vec::new(), bridge_deadline: None };
            let requests = Requests::new(&cluster, &options, &KIND, "x.io/finalizer");
            let object = serde_json::from_value(thing("1")).unwrap();
            let opened = requests.open(&object, requests.drain_spec("n", "R", "")).await.unwrap();
            assert!(opened.is_none());
            assert_eq!(*lock(&asked), expected, "{live:?}");
        }
    }

    #[test]
    fn the_progress_follows_from_the_status_of_the_drain_and_names_its_blockers() {
        let condition = |kind: &str| {
            json!([{"type": kind, "status": "True", "reason": "x", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}])
        };
        let blocker = json!({"node": "a", "pod": "shop/db-0", "reason": "Refused", "since": "2026-01-01T00:00:00Z",
            "message": "it refuses"});
        let table: [(Value, Outcome, &str, &str); 5] = [
            (json!({}), Outcome::Asking, DRAINING, ""),
            (
                json!({"verdict": "Slow", "message": "wait", "blockers": [blocker]}),
                Outcome::Asking,
                DRAINING,
                "wait",
            ),
            (
                json!({"verdict": "Stuck", "message": "stuck", "blockers": [blocker]}),
                Outcome::Asking,
                "Stuck",
                "stuck; shop/db-0: it refuses",
            ),
            (
                json!({"conditions": condition("Failed"), "message": "no"}),
                Outcome::Failed,
                "DrainFailed",
                "no",
            ),
            (json!({"conditions": condition("Drained")}), Outcome::Complete, "DrainComplete", ""),
        ];
        for (status, outcome, reason, message) in table {
            let drain =
                json!({"metadata": {"name": "d"}, "spec": {"nodes": {"names": ["a"]}}, "status": status});
            let found = Progress::of(Arc::new(serde_json::from_value(drain).unwrap()));
            let seen = (found.outcome, found.reason, found.message.as_str());
            assert_eq!(seen, (outcome, reason, message), "{status}");
        }
    }
}
