//! PodGroups in the index: their pods.

use std::sync::Arc;

use evacuation_api::Evacuation;
use evacuation_protocol::{LivePod, MAX_GROUP_MEMBERS, MAX_GROUP_PODS, can_be_disrupted, pod_group};
use k8s_openapi::api::core::v1::Pod;

use super::{Change, Index, is_finished, nodes::node_name};
use crate::cluster::ObjectKey;

impl Index {
    /// The pods of a PodGroup that can be disrupted or are asked, with their Evacuations, by the UIDs of the
    /// pods. None for a group in which more than [`MAX_GROUP_MEMBERS`] pods can be disrupted: they move one
    /// by one, as do the pods of a group with more than [`MAX_GROUP_PODS`].
    pub(crate) fn group(&self, group: &ObjectKey) -> Vec<(Arc<Pod>, Vec<Arc<Evacuation>>)> {
        let mut disrupted = 0;
        let mut members = Vec::new();
        let keys = self.by_group.get(group).filter(|keys| keys.len() <= MAX_GROUP_PODS);
        for key in keys.into_iter().flatten() {
            let Some(pod) = self.pods.get(key) else { continue };
            let counts = can_be_disrupted(pod);
            disrupted += usize::from(counts);
            if disrupted > MAX_GROUP_MEMBERS {
                return Vec::new();
            }
            let mut all = self.evacuations_of(key);
            all.retain(|evacuation| evacuation.spec.target.pod.uid == pod.metadata.uid);
            if counts || all.iter().any(|evacuation| !is_finished(evacuation)) {
                members.push((Arc::clone(pod), all));
            }
        }
        members
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
        let keys = self.by_group.get(group).filter(|keys| keys.len() <= MAX_GROUP_PODS);
        let Some(keys) = keys else { return Vec::new() };
        let counts = |key: &&ObjectKey| self.pods.get(key).is_some_and(|pod| can_be_disrupted(pod));
        if keys.len() > MAX_GROUP_MEMBERS && keys.iter().filter(counts).count() > MAX_GROUP_MEMBERS {
            return Vec::new();
        }
        keys.iter().flat_map(|pod| self.active_of(pod)).collect()
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
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, version: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": version},
            "spec": {"containers": [], "schedulingGroup": {"podGroupName": "gang"}},
        }))
        .unwrap()
    }

    /// The same on a node.
    fn bound(name: &str, version: &str) -> Pod {
        let mut pod = pod(name, version);
        pod.spec.get_or_insert_default().node_name = Some("node-a".to_owned());
        pod
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
        for name in ["one", "two"] {
            index.apply(bound(name, "1"));
        }
        index.apply(pod("three", "1"));
        let of = |name: &str| ObjectKey::new("ns", format!("of-{name}"));
        index.apply(evacuation("one"));
        let touched = index.apply(evacuation("two")).touched;
        assert!(touched.contains(&of("one")) && touched.contains(&of("two")), "{touched:?}");
        let mut labeled = pod("three", "2");
        labeled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        assert_eq!(index.apply(labeled).touched, [].into(), "a label concerns no other pod");
        let touched = index.apply(bound("three", "3")).touched;
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
            index.apply(bound(&number.to_string(), "1"));
        }
        let gang = ObjectKey::new("ns", "gang");
        assert_eq!((index.group(&gang).len(), index.asked_in(&gang).len()), (0, 1));
        assert!(index.active_in(&gang).is_empty());
    }

    #[test]
    fn pods_that_ended_or_wait_for_a_node_make_no_group_too_large() {
        let mut index = Index::default();
        for number in 0..=MAX_GROUP_MEMBERS {
            let mut ended = bound(&format!("ended-{number}"), "1");
            ended.status.get_or_insert_default().phase = Some("Failed".to_owned());
            index.apply(ended);
            index.apply(pod(&format!("waiting-{number}"), "1"));
        }
        for name in ["one", "two"] {
            index.apply(bound(name, "1"));
        }
        index.apply(evacuation("one"));
        // Its request concerns the others until it is gone.
        let mut leaving = bound("leaving", "1");
        leaving.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        index.apply(leaving);
        index.apply(evacuation("leaving"));
        let gang = ObjectKey::new("ns", "gang");
        let members: Vec<_> = index.group(&gang).iter().map(|(pod, _)| pod.name_any()).collect();
        assert_eq!(members, ["leaving", "one", "two"]);
        assert_eq!(index.active_in(&gang).len(), 2);
        for number in 0..MAX_GROUP_PODS {
            index.apply(pod(&format!("more-{number}"), "1"));
        }
        assert!(index.group(&gang).is_empty() && index.active_in(&gang).is_empty(), "too many to look at");
    }
}
