//! Which changes are of interest to the built-in responders.

use std::collections::BTreeSet;

use evacuation_api::{Evacuation, GATE_ASKED_ANNOTATION, GATE_RESPONDER, REPLACEMENT_RESPONDER};
use k8s_openapi::api::core::v1::Pod;

use super::{part::Part, surge};
use crate::{
    ObjectKey,
    controller::{Controller, lock},
    index::{Change, Index, controller_of, pod_key},
};

impl Controller {
    /// Has the built-in responders look at what a change of an Evacuation is about.
    pub(crate) fn wake_for_evacuation(&self, change: &Change<Evacuation>) {
        if let (Some(gone), None) = (&change.old, &change.new) {
            lock(&self.responders.said).remove(gone.metadata.uid.as_deref().unwrap_or_default());
        }
        let states = [&change.old, &change.new].into_iter().flatten();
        let pods: BTreeSet<ObjectKey> =
            states.filter(|evacuation| asks_us(evacuation)).map(|evacuation| pod_key(evacuation)).collect();
        self.wake_responders(pods);
    }

    /// The same for a change of a pod: of a target, or of what may be the replacement of one.
    pub(crate) fn wake_for_pod(&self, change: &Change<Pod>) {
        let mut pods = BTreeSet::new();
        {
            let index = lock(&self.index);
            let states = [&change.old, &change.new].into_iter().flatten();
            if states.clone().any(|pod| is_ours(&index, &change.key, pod)) {
                pods.insert(change.key.clone());
            }
            for owner in states.filter_map(|pod| controller_of(pod)) {
                pods.extend(index.released_from(&owner.uid));
            }
        }
        self.wake_responders(pods);
    }

    /// Has the built-in responders look at everything.
    pub(crate) fn wake_for_all(&self) {
        let pods: BTreeSet<ObjectKey> = {
            let index = lock(&self.index);
            let targets = index.evacuations().map(|(_, evacuation)| evacuation);
            let targets = targets.filter(|evacuation| asks_us(evacuation)).map(|e| pod_key(e));
            let marked = index.pods().filter(|(_, pod)| is_marked(pod));
            targets.chain(marked.map(|(key, _)| key.clone())).collect()
        };
        self.wake_responders(pods);
    }

    fn wake_responders(&self, pods: BTreeSet<ObjectKey>) {
        for pod in pods {
            self.responders.queue.add(pod);
        }
    }
}

fn asks_us(evacuation: &Evacuation) -> bool {
    [REPLACEMENT_RESPONDER, GATE_RESPONDER].into_iter().any(|name| Part::of(evacuation, name).is_some())
}

fn is_ours(index: &Index, key: &ObjectKey, pod: &Pod) -> bool {
    is_marked(pod) || index.evacuations_of(key).iter().any(|e| asks_us(e))
}

/// Whether a pod carries what is to be taken off again.
fn is_marked(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    surge::is_released(pod) || annotations.is_some_and(|all| all.contains_key(GATE_ASKED_ANNOTATION))
}
