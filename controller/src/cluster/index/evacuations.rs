//! Evacuations in the index.

use evacuation_api::Evacuation;
use evacuation_protocol::project_metadata;

use super::{Change, Index, Indexed, Table};
use crate::cluster::ObjectKey;

impl Indexed for Evacuation {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.evacuations
    }

    /// Keeps the entries, the answers and the conditions: a status is decided from them, and the server
    /// limits their number and size.
    fn project(&mut self) {
        project_metadata(&mut self.metadata, 0);
        self.shrink_to_fit();
    }

    fn changed(index: &mut Index, change: &Change<Self>) -> Vec<ObjectKey> {
        let old = change.old.as_deref().map(|evacuation| (pod_key(evacuation), uid(evacuation)));
        let new = change.new.as_deref().map(|evacuation| (pod_key(evacuation), uid(evacuation)));
        if old != new {
            if let Some((pod, uid)) = old {
                index.forget_target(&change.key, &pod, uid.as_deref());
            }
            if let Some((pod, _)) = new {
                index.by_pod.entry(pod).or_default().insert(change.key.clone());
            }
        }
        let pod = change.new.as_deref().or(change.old.as_deref()).map(pod_key);
        let mut touched: Vec<_> = pod.iter().flat_map(|pod| index.active_beside(pod)).collect();
        touched.push(change.key.clone());
        touched
    }
}

impl Index {
    fn forget_target(&mut self, evacuation: &ObjectKey, pod: &ObjectKey, uid: Option<&str>) {
        let Some(keys) = self.by_pod.get_mut(pod) else {
            return;
        };
        keys.remove(evacuation);
        let wanted =
            keys.iter().filter_map(|key| self.evacuations.get(key)).any(|e| self::uid(e).as_deref() == uid);
        if keys.is_empty() {
            self.by_pod.remove(pod);
        }
        if let Some(uid) = uid.filter(|_| !wanted) {
            self.gone.remove(uid);
        }
    }
}

/// Returns true when an Evacuation has ended.
pub(crate) fn is_finished(evacuation: &Evacuation) -> bool {
    evacuation.status.as_ref().is_some_and(evacuation_protocol::is_finished)
}

/// The key of the target.
pub(crate) fn pod_key(evacuation: &Evacuation) -> ObjectKey {
    ObjectKey::new(
        evacuation.metadata.namespace.clone().unwrap_or_default(),
        evacuation.spec.target.pod.name.clone(),
    )
}

fn uid(evacuation: &Evacuation) -> Option<String> {
    evacuation.spec.target.pod.uid.clone()
}
