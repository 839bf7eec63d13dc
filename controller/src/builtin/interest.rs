//! Pods that a built-in responder must look at.

use std::collections::BTreeSet;

use evacuation_api::Evacuation;
use k8s_openapi::api::core::v1::Pod;

use super::part::Part;
use crate::cluster::{Change, ClusterEvent, ObjectKey, View, is_finished, pod_key};

/// Rule by which a responder finds its pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interest {
    /// Name of the responder.
    pub(crate) responder: &'static str,
    /// Returns true for a pod that carries something that the responder must remove later.
    pub(crate) is_marked: fn(&Pod) -> bool,
}

impl Interest {
    /// Returns the pods that an event concerns.
    pub(crate) fn concerned(&self, view: &View, event: &ClusterEvent<'_>) -> BTreeSet<ObjectKey> {
        match event {
            ClusterEvent::Evacuation(change) => {
                states(change).filter(|evacuation| self.is_asked_by(evacuation)).map(pod_key).collect()
            }
            ClusterEvent::Pod(change) => {
                let asked = || view.index().evacuations_of(&change.key).iter().any(|e| self.is_asked_by(e));
                let ours = states(change).any(|pod| (self.is_marked)(pod)) || asked();
                ours.then(|| change.key.clone()).into_iter().collect()
            }
            _ => BTreeSet::new(),
        }
    }

    /// Returns the pods of a namespace for which the responder is or was asked, and whose Evacuation goes on.
    pub(crate) fn asked_in(&self, view: &View, namespace: &str) -> BTreeSet<ObjectKey> {
        let index = view.index();
        let active = index.evacuations_in(namespace).filter(|(_, known)| !is_finished(known));
        active.filter(|(_, known)| self.is_asked_by(known)).map(|(_, known)| pod_key(known)).collect()
    }

    /// Returns every pod that may need work.
    pub(crate) fn all(&self, view: &View) -> BTreeSet<ObjectKey> {
        let index = view.index();
        let evacuations = index.evacuations().map(|(_, evacuation)| evacuation);
        let targets = evacuations.filter(|evacuation| self.is_asked_by(evacuation)).map(|e| pod_key(e));
        let marked = index.pods().filter(|(_, pod)| (self.is_marked)(pod));
        targets.chain(marked.map(|(key, _)| key.clone())).collect()
    }

    fn is_asked_by(&self, evacuation: &Evacuation) -> bool {
        Part::of(evacuation, self.responder).is_some()
    }
}

/// Returns the known states of a changed object, the old one first.
pub(crate) fn states<K>(change: &Change<K>) -> impl Iterator<Item = &K> {
    [&change.old, &change.new].into_iter().flatten().map(AsRef::as_ref)
}

/// Returns the UID of an Evacuation if the event is its deletion.
pub(crate) fn deleted_evacuation<'a>(event: &'a ClusterEvent<'_>) -> Option<&'a str> {
    match event {
        ClusterEvent::Evacuation(Change { old: Some(gone), new: None, .. }) => gone.metadata.uid.as_deref(),
        _ => None,
    }
}
