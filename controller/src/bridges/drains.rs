//! NodeEvacuations that a bridge opens, one for a foreign object.

use std::sync::Arc;

use evacuation_api::{
    DeadlineAction, DrainRequester, EmptyDirRule, NodeEvacuation, NodeEvacuationSpec, NodeSelection,
    PodRules, UnmanagedRule,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
    core::DynamicObject,
};
use tracing::info;

use super::{
    BridgeOptions,
    foreign::Foreign,
    text::{fitting, unique_name},
};
use crate::cluster::{CallError, Cluster, ClusterEvent, Leadership, ObjectKey, View, call};

/// Annotation of a NodeEvacuation with the plural and the group of the foreign kind.
const KIND: &str = "bridge.evacuation.dev/kind";
/// Annotation of a NodeEvacuation with the namespace of the foreign object.
const NAMESPACE: &str = "bridge.evacuation.dev/namespace";
/// Annotation of a NodeEvacuation with the name of the foreign object.
const NAME: &str = "bridge.evacuation.dev/name";
/// Annotation of a NodeEvacuation with the UID of the foreign object.
const UID: &str = "bridge.evacuation.dev/uid";
/// Annotation of a foreign object with the name of the NodeEvacuation that was opened for it. One that is
/// missing then was deleted by a user, and is not opened again.
const OPENED: &str = "bridge.evacuation.dev/node-evacuation";

/// State of the drain of a foreign object.
pub(super) enum Drain {
    /// It was opened just now, which changed the foreign object: the caller decides again.
    Opened,
    /// It exists.
    Open(Arc<NodeEvacuation>),
    /// A user deleted it.
    Dismissed,
    /// The API server does not take it, for that reason.
    Rejected(String),
}

/// The drains of one foreign kind.
pub(super) struct Drains {
    foreign: Arc<Foreign>,
    /// Beginning of the drains' names.
    prefix: &'static str,
    api: Api<NodeEvacuation>,
    leadership: Leadership,
    view: Arc<View>,
    deadline_seconds: Option<i64>,
}

impl Drains {
    /// Returns the drains of a kind. Their names begin with `prefix`.
    pub(super) fn new(
        cluster: &Cluster,
        foreign: &Arc<Foreign>,
        prefix: &'static str,
        options: &BridgeOptions,
    ) -> Self {
        Self {
            foreign: Arc::clone(foreign),
            prefix,
            api: Api::all(cluster.client.clone()),
            leadership: cluster.leadership.clone(),
            view: Arc::clone(&cluster.view),
            deadline_seconds: options.bridge_deadline.map(|deadline| deadline.num_seconds()),
        }
    }

    /// Returns the key of the foreign object whose drain an event concerns.
    pub(super) fn key_of(&self, event: &ClusterEvent<'_>) -> Option<ObjectKey> {
        let ClusterEvent::NodeEvacuation(change) = event else { return None };
        let drain = change.new.as_ref().or(change.old.as_ref())?;
        Some(self.source(drain)?.0)
    }

    /// Returns the spec of a drain of one node, as `kubectl drain --force --delete-emptydir-data` drains it.
    pub(super) fn spec(&self, node: &str, reason: &str, message: &str) -> NodeEvacuationSpec {
        let message = fitting(message);
        NodeEvacuationSpec {
            nodes: NodeSelection { names: vec![node.to_owned()], ..NodeSelection::default() },
            requester: DrainRequester {
                reason: Some(reason.to_owned()),
                message: (!message.is_empty()).then_some(message),
                deadline_seconds: self.deadline_seconds,
                at_deadline: self.deadline_seconds.map(|_| DeadlineAction::Evict),
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
    pub(super) fn get(&self, object: &DynamicObject) -> Option<Arc<NodeEvacuation>> {
        let drain = self.view.index().drain(&ObjectKey::new("", self.name(object)))?;
        (self.source(&drain)?.1 == object.uid()?).then_some(drain)
    }

    /// Returns the drain of an object, and opens it the first time.
    pub(super) async fn open(
        &self,
        object: &DynamicObject,
        spec: impl FnOnce() -> NodeEvacuationSpec,
    ) -> Result<Drain, CallError> {
        let opened = object.annotations().contains_key(OPENED);
        let drain = match self.get(object) {
            Some(drain) => drain,
            None => match self.read(object).await? {
                Some(drain) => Arc::new(drain),
                None if opened => return Ok(Drain::Dismissed),
                None => match self.create(object, spec()).await {
                    Ok(drain) => Arc::new(drain),
                    Err(error) if matches!(error.code(), 400 | 403 | 422) => {
                        let message = error.status().map(|status| fitting(&status.message));
                        return Ok(Drain::Rejected(message.unwrap_or_default()));
                    }
                    Err(error) => return Err(error),
                },
            },
        };
        if drain.metadata.deletion_timestamp.is_some() {
            return Ok(Drain::Dismissed);
        }
        if !opened {
            self.foreign.annotate(object, OPENED, &drain.name_any()).await?;
            return Ok(Drain::Opened);
        }
        Ok(Drain::Open(drain))
    }

    /// Deletes the drain of an object. Returns true when it is gone: its requests are withdrawn then.
    pub(super) async fn close(&self, object: &DynamicObject) -> Result<bool, CallError> {
        let drain = match self.get(object) {
            Some(drain) => drain,
            // The watch may not have shown it yet, to a process that has just begun to lead.
            None => match self.read(object).await? {
                Some(drain) => Arc::new(drain),
                None => return Ok(true),
            },
        };
        self.delete(&drain).await
    }

    /// Deletes the drains whose foreign object is gone without its finalizer. A live read confirms it.
    pub(super) async fn close_orphans(&self) -> Result<(), CallError> {
        let drains: Vec<_> = self.view.index().drains().map(|(_, drain)| Arc::clone(drain)).collect();
        for drain in drains.iter().filter(|drain| drain.metadata.deletion_timestamp.is_none()) {
            let Some((key, uid)) = self.source(drain) else { continue };
            let known = self.foreign.get(&key).is_some_and(|object| object.uid().as_ref() == Some(&uid));
            if !known && self.foreign.is_gone(&key, &uid).await? {
                self.delete(drain).await?;
            }
        }
        Ok(())
    }

    fn name(&self, object: &DynamicObject) -> String {
        format!("{}-{}", self.prefix, unique_name(object))
    }

    /// Returns the key and the UID of the object for which a drain was opened. `None` for another kind.
    fn source(&self, drain: &NodeEvacuation) -> Option<(ObjectKey, String)> {
        let annotations = drain.annotations();
        annotations.get(KIND).filter(|kind| **kind == self.foreign.kind())?;
        let namespace = annotations.get(NAMESPACE).cloned().unwrap_or_default();
        Some((ObjectKey::new(namespace, annotations.get(NAME)?), annotations.get(UID)?.clone()))
    }

    async fn read(&self, object: &DynamicObject) -> Result<Option<NodeEvacuation>, CallError> {
        let name = self.name(object);
        let live = call(format!("read nodeevacuation {name}"), self.api.get_opt(&name)).await?;
        let live = live.filter(|drain| self.source(drain).map(|(_, uid)| uid) == object.uid());
        if let Some(drain) = &live {
            self.view.apply(drain.clone());
        }
        Ok(live)
    }

    async fn create(
        &self,
        object: &DynamicObject,
        spec: NodeEvacuationSpec,
    ) -> Result<NodeEvacuation, CallError> {
        self.leadership.check()?;
        let mut drain = NodeEvacuation::new(&self.name(object), spec);
        let annotations = drain.annotations_mut();
        annotations.insert(KIND.to_owned(), self.foreign.kind());
        annotations.insert(NAMESPACE.to_owned(), object.namespace().unwrap_or_default());
        annotations.insert(NAME.to_owned(), object.name_any());
        annotations.insert(UID.to_owned(), object.uid().unwrap_or_default());
        let (name, parameters) = (drain.name_any(), PostParams::default());
        let create = self.api.create(&parameters, &drain);
        let created = call(format!("create nodeevacuation {name}"), create).await?;
        self.view.apply(created.clone());
        info!(drain = name, "opened for {} {}", self.foreign.kind(), ObjectKey::of(object));
        Ok(created)
    }

    async fn delete(&self, drain: &NodeEvacuation) -> Result<bool, CallError> {
        if drain.metadata.deletion_timestamp.is_some() {
            return Ok(false);
        }
        self.leadership.check()?;
        let name = drain.name_any();
        let preconditions = Preconditions { uid: drain.uid(), resource_version: None };
        let parameters = DeleteParams::default().preconditions(preconditions);
        let gone =
            match call(format!("delete nodeevacuation {name}"), self.api.delete(&name, &parameters)).await {
                Ok(outcome) => match outcome.left() {
                    Some(deleted) => {
                        self.view.apply(deleted);
                        false
                    }
                    None => true,
                },
                Err(error) if error.code() == 404 => true,
                Err(error) => return Err(error),
            };
        if gone {
            self.view.remove::<NodeEvacuation>(&ObjectKey::of(drain), drain.metadata.uid.as_deref());
        }
        info!(drain = name, "closed");
        Ok(gone)
    }
}
