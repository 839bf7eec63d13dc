//! PodGroups in the index: their pods.

use std::sync::Arc;

use evacuation_api::Evacuation;
use evacuation_protocol::{LivePod, MAX_GROUP_MEMBERS, pod_group};
use k8s_openapi::api::core::v1::Pod;

use super::{Change, Index, is_finished, nodes::node_name};
use crate::cluster::ObjectKey;

impl Index {
    /// The pods of a PodGroup with their Evacuations, by the UIDs of the pods. None for a group with more
    /// than [`MAX_GROUP_MEMBERS`] pods, which move one by one.
    pub(crate) fn group(&self, group: &ObjectKey) -> Vec<(Arc<Pod>, Vec<Arc<Evacuation>>)> {
        let Some(keys) = self.by_group.get(group).filter(|keys| keys.len() <= MAX_GROUP_MEMBERS) else {
            return Vec::new();
        };
        let pods = keys.iter().filter_map(|key| Some((key, self.pods.get(key)?)));
        let with_evacuations = |(key, pod): (&ObjectKey, &Arc<Pod>)| {
            let mut all = self.evacuations_of(key);
            all.retain(|evacuation| evacuation.spec.target.pod.uid == pod.metadata.uid);
            (Arc::clone(pod), all)
        };
        pods.map(with_evacuations).collect()
    }

    /// The Evacuations of the pods of a group which have not finished, however large the group is, without
    /// rehearsals.
    pub(crate) fn asked_in(&self, group: &ObjectKey) -> Vec<Arc<Evacuation>> {
        let pods = self.by_group.get(group).into_iter().flatten();
        let evacuations = pods.flat_map(|pod| self.evacuations_of(pod));
        evacuations.filter(|evacuation| !is_finished(evacuation)).collect()
    }

    /// The keys of the PodGroups with pods.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &ObjectKey> {
        self.by_group.keys()
    }

    /// The Evacuations of the pods of a group which have not finished.
    pub(super) fn active_in(&self, group: &ObjectKey) -> Vec<ObjectKey> {
        let keys = self.by_group.get(group).filter(|keys| keys.len() <= MAX_GROUP_MEMBERS);
        keys.into_iter().flatten().flat_map(|pod| self.active_of(pod)).collect()
    }

    /// The Evacuations whose decisions depend on a changed pod of a group: none when only its labels,
    /// conditions or containers changed.
    pub(super) fn active_around(&self, change: &Change<Pod>) -> Vec<ObjectKey> {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if old.map(membership) == new.map(membership) {
            return Vec::new();
        }
        let group = new.or(old).and_then(group_key);
        group.map(|group| self.active_in(&group)).unwrap_or_default()
    }

    /// The Evacuations of the other pods in the group of that pod which have not finished.
    pub(super) fn active_beside(&self, pod: &ObjectKey) -> Vec<ObjectKey> {
        let group = self.pods.get(pod).and_then(|pod| group_key(pod));
        group.map(|group| self.active_in(&group)).unwrap_or_default()
    }

    /// Keeps up the pods of each group. The group of a pod never changes.
    pub(super) fn regroup(&mut self, change: &Change<Pod>) {
        let (old, new) =
            (change.old.as_deref().and_then(group_key), change.new.as_deref().and_then(group_key));
        if old == new {
            return;
        }
        if let Some(group) = old
            && let Some(pods) = self.by_group.get_mut(&group)
        {
            pods.remove(&change.key);
            if pods.is_empty() {
                self.by_group.remove(&group);
            }
        }
        if let Some(group) = new {
            self.by_group.entry(group).or_default().insert(change.key.clone());
        }
    }
}

/// The part of a pod by which it belongs to the members that move together.
fn membership(pod: &Pod) -> impl PartialEq + '_ {
    let (metadata, live) = (&pod.metadata, LivePod::of(pod));
    let group = pod_group(pod);
    (&metadata.uid, group, node_name(pod), live.phase, live.terminating_until.is_some())
}

/// The key of a pod's PodGroup.
pub(crate) fn group_key(pod: &Pod) -> Option<ObjectKey> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    pod_group(pod).map(|group| ObjectKey::new(namespace, group))
}

#[cfg(test)]
mod tests {
    use evacuation_api::Evacuation;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, version: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": version},
            "spec": {"containers": [], "schedulingGroup": {"podGroupName": "gang"}},
        }))
        .unwrap()
    }

    fn evacuation(pod: &str) -> Evacuation {
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": format!("of-{pod}"), "uid": pod, "resourceVersion": "1"},
            "spec": {"target": {"pod": {"name": pod, "uid": pod}}, "requesters": [{"name": "a.b/c"}]},
        }))
        .unwrap()
    }

    #[test]
    fn a_change_of_one_member_touches_the_evacuations_of_all() {
        let mut index = Index::default();
        for name in ["one", "two", "three"] {
            index.apply(pod(name, "1"));
        }
        let of = |name: &str| ObjectKey::new("ns", format!("of-{name}"));
        index.apply(evacuation("one"));
        let touched = index.apply(evacuation("two")).touched;
        assert!(touched.contains(&of("one")) && touched.contains(&of("two")), "{touched:?}");
        let mut labeled = pod("three", "2");
        labeled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        assert_eq!(index.apply(labeled).touched, [].into(), "a label concerns no other pod");
        let mut bound = pod("three", "3");
        bound.spec.get_or_insert_default().node_name = Some("node-a".to_owned());
        let touched = index.apply(bound).touched;
        assert!(touched.contains(&of("one")) && touched.contains(&of("two")), "{touched:?}");
        let gang = ObjectKey::new("ns", "gang");
        assert_eq!(index.group(&gang).len(), 3);
        index.delete(&pod("three", "4"));
        assert_eq!(index.group(&gang).len(), 2);
    }

    #[test]
    fn a_group_that_grew_too_large_has_no_members_and_keeps_its_evacuations() {
        let mut index = Index::default();
        index.apply(evacuation("0"));
        for number in 0..=MAX_GROUP_MEMBERS {
            index.apply(pod(&number.to_string(), "1"));
        }
        let gang = ObjectKey::new("ns", "gang");
        assert_eq!((index.group(&gang).len(), index.asked_in(&gang).len()), (0, 1));
    }
}
