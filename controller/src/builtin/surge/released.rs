//! The pods that were released from a ReplicaSet for their replacement.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use k8s_openapi::api::core::v1::Pod;

use super::record::released_from;
use crate::cluster::{Change, ObjectKey, lock};

/// The pods that were released, by the UID of their ReplicaSet.
#[derive(Debug, Default)]
pub(super) struct ReleasedPods(Mutex<BTreeMap<String, BTreeSet<ObjectKey>>>);

impl ReleasedPods {
    /// Returns the pods that were released from the ReplicaSet of that UID.
    pub(super) fn from(&self, replica_set: &str) -> BTreeSet<ObjectKey> {
        lock(&self.0).get(replica_set).cloned().unwrap_or_default()
    }

    /// Records a change of a pod.
    pub(super) fn observe(&self, change: &Change<Pod>) {
        let old = change.old.as_deref().and_then(released_from);
        let new = change.new.as_deref().and_then(released_from);
        if old == new {
            return;
        }
        let mut released = lock(&self.0);
        if let Some(old) = old
            && let Some(keys) = released.get_mut(&old)
        {
            keys.remove(&change.key);
            if keys.is_empty() {
                released.remove(&old);
            }
        }
        if let Some(new) = new {
            released.entry(new).or_default().insert(change.key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn released(record: Option<&str>) -> Pod {
        let annotations = record.map(|uid| {
            let record = json!({"label": {"key": "k", "value": "v"}, "replicaSet": {"name": "r", "uid": uid},
                "evacuation": {"name": "e", "uid": "e1"}, "time": "2026-01-01T00:00:00Z"});
            json!({evacuation_api::RELEASED_ANNOTATION: record.to_string()})
        });
        serde_json::from_value(json!({"metadata": {"name": "p", "annotations": annotations}})).unwrap()
    }

    #[test]
    fn a_released_pod_is_found_by_its_replica_set_until_it_is_given_back_or_gone() {
        let pods = ReleasedPods::default();
        let found = |uid: &str| pods.from(uid).into_iter().map(|key| key.name).collect::<Vec<_>>();
        let change = |old: Option<Pod>, new: Option<Pod>| {
            let (old, new) = (old.map(Arc::new), new.map(Arc::new));
            pods.observe(&Change { key: ObjectKey::new("ns", "p"), old, new, missing: false });
        };
        change(None, Some(released(Some("r1"))));
        assert_eq!(found("r1"), ["p"]);
        change(Some(released(Some("r1"))), Some(released(Some("r2"))));
        assert_eq!((found("r1").len(), found("r2").len()), (0, 1));
        change(Some(released(Some("r2"))), Some(released(None)));
        assert!(found("r2").is_empty());
        change(Some(released(None)), Some(released(Some("r1"))));
        change(Some(released(Some("r1"))), None);
        assert!(found("r1").is_empty());
    }
}
