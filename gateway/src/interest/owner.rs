//! The wish of a pod's owner: the rules by which each workload controller picks the pods that it deletes.
//!
//! Read in `pkg/controller/replicaset/replica_set.go`, `pkg/controller/statefulset/stateful_set_control.go`
//! and `pkg/controller/daemon/update.go`, kubernetes v1.37.1.

use k8s_openapi::{
    api::{
        apps::v1::{ControllerRevision, DaemonSet, ReplicaSet, StatefulSet},
        core::v1::{Pod, ReplicationController},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::owner::{ordinal, ordinals};

/// Label with the hash of the template that a pod was made from.
pub(super) const REVISION_LABEL: &str = "controller-revision-hash";
/// Update strategy by which a controller deletes no pod of an old template.
const ON_DELETE: &str = "OnDelete";

/// The interest of an owner in the deletion of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    /// The owner can still want this pod, or any of its pods, deleted.
    Kept,
    /// The owner wants neither fewer nor other pods.
    Lost,
}

impl Interest {
    fn lost(lost: bool) -> Self {
        if lost { Self::Lost } else { Self::Kept }
    }
}

/// Returns the interest of a ReplicaSet: it deletes pods only while it has more than it should.
pub(super) fn of_replica_set(set: &ReplicaSet) -> Interest {
    let Some(status) = &set.status else { return Interest::Kept };
    let wanted = set.spec.replicas.unwrap_or(1);
    Interest::lost(is_observed(&set.metadata, status.observed_generation) && status.replicas <= wanted)
}

/// Returns the interest of a ReplicationController: as of a ReplicaSet.
pub(super) fn of_replication_controller(controller: &ReplicationController) -> Interest {
    let Some(status) = &controller.status else { return Interest::Kept };
    let wanted = controller.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    Interest::lost(is_observed(&controller.metadata, status.observed_generation) && status.replicas <= wanted)
}

/// Returns the interest of a StatefulSet in that pod: it deletes pods beyond its ordinals, and pods of an old
/// template from its partition on.
pub(super) fn of_stateful_set(set: &StatefulSet, pod: &Pod) -> Interest {
    let (spec, Some(status)) = (&set.spec, &set.status) else { return Interest::Kept };
    let (Some(ordinal), true) = (ordinal(pod), is_observed(&set.metadata, status.observed_generation)) else {
        return Interest::Kept;
    };
    let strategy = spec.update_strategy.as_ref();
    let replaces = strategy.is_none_or(|strategy| strategy.type_.as_deref() != Some(ON_DELETE));
    let partition = strategy.and_then(|s| s.rolling_update.as_ref()?.partition).unwrap_or(0);
    let current = status.update_revision.as_deref().is_some_and(|hash| revision(pod) == Some(hash));
    let stays = ordinals(set).contains(&ordinal) && (!replaces || ordinal < partition || current);
    Interest::lost(stays)
}

/// Returns the interest of a DaemonSet in that pod: it deletes pods of an old template, and pods of nodes
/// where none should run. `revisions` are all revisions of the DaemonSet, or none: it then keeps its
/// interest.
pub(super) fn of_daemon_set(set: &DaemonSet, revisions: &[ControllerRevision], pod: &Pod) -> Interest {
    let (spec, Some(status)) = (&set.spec, &set.status) else { return Interest::Kept };
    let newest = revisions.iter().filter(|known| is_owned(&known.metadata, &set.metadata));
    let newest = newest.max_by_key(|known| known.revision);
    let hash = newest.and_then(|known| known.metadata.labels.as_ref()?.get(REVISION_LABEL));
    let strategy = spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
    let current = hash.is_some_and(|hash| revision(pod) == Some(hash));
    let stays = (current || strategy == Some(ON_DELETE)) && status.number_misscheduled == 0;
    Interest::lost(stays && is_observed(&set.metadata, status.observed_generation))
}

fn is_observed(metadata: &ObjectMeta, observed: Option<i64>) -> bool {
    observed.is_some() && observed >= metadata.generation
}

fn is_owned(object: &ObjectMeta, owner: &ObjectMeta) -> bool {
    object.owner_references.iter().flatten().any(|known| owner.uid.as_ref() == Some(&known.uid))
}

fn revision(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(REVISION_LABEL).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn pod(name: &str, hash: &str) -> Pod {
        read(json!({"metadata": {"name": name, "labels": {REVISION_LABEL: hash}}}))
    }

    #[test]
    fn a_replica_set_that_has_as_many_pods_as_it_should_wants_none_deleted() {
        let table = [
            (Some(2), 3, 2, 2, Interest::Kept),
            (Some(3), 3, 2, 2, Interest::Lost),
            (Some(4), 3, 2, 2, Interest::Lost),
            (None, 1, 2, 2, Interest::Lost),
            (None, 2, 2, 2, Interest::Kept),
            // Its controller has not seen the newest number.
            (Some(3), 3, 3, 2, Interest::Kept),
        ];
        for (wanted, has, generation, observed, interest) in table {
            let object = json!({
                "metadata": {"generation": generation},
                "spec": {"replicas": wanted, "selector": {}},
                "status": {"replicas": has, "observedGeneration": observed},
            });
            assert_eq!(of_replica_set(&read(object.clone())), interest, "{object}");
            let mut controller = object.clone();
            controller["spec"]["selector"] = json!({"app": "web"});
            assert_eq!(of_replication_controller(&read(controller)), interest, "{object}");
        }
        assert_eq!(of_replica_set(&ReplicaSet::default()), Interest::Kept);
    }

    #[test]
    fn a_stateful_set_wants_pods_beyond_its_ordinals_and_of_an_old_template_deleted() {
        let set = |more: &Value| {
            let mut object = json!({
                "metadata": {"generation": 2},
                "spec": {"replicas": 3, "selector": {}, "template": {}, "serviceName": "db"},
                "status": {"replicas": 3, "observedGeneration": 2, "updateRevision": "new"},
            });
            let spec = object["spec"].as_object_mut().unwrap();
            spec.extend(more.as_object().unwrap().clone());
            object
        };
        let partition =
            json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
        let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
        let table = [
            (json!({}), "db-0", "new", Interest::Lost),
            (json!({}), "db-0", "old", Interest::Kept),
            (json!({}), "db-3", "new", Interest::Kept),
            (json!({"ordinals": {"start": 1}}), "db-3", "new", Interest::Lost),
            (json!({"ordinals": {"start": 1}}), "db-0", "new", Interest::Kept),
            (partition.clone(), "db-1", "old", Interest::Lost),
            (partition, "db-2", "old", Interest::Kept),
            (on_delete.clone(), "db-0", "old", Interest::Lost),
            (on_delete, "db-3", "old", Interest::Kept),
            (json!({}), "db", "new", Interest::Kept),
        ];
        for (more, name, hash, interest) in table {
            assert_eq!(
                of_stateful_set(&read(set(&more)), &pod(name, hash)),
                interest,
                "{more} {name} {hash}"
            );
        }
        let mut unseen = set(&json!({}));
        unseen["metadata"]["generation"] = json!(3);
        assert_eq!(of_stateful_set(&read(unseen), &pod("db-0", "new")), Interest::Kept);
    }

    #[test]
    fn a_daemon_set_wants_pods_of_an_old_template_deleted_and_perhaps_those_of_wrong_nodes() {
        let set = |strategy: &str, misscheduled: i32, observed: i64| {
            read::<DaemonSet>(json!({
                "metadata": {"generation": 2, "uid": "ds"},
                "spec": {"selector": {}, "template": {}, "updateStrategy": {"type": strategy}},
                "status": {
                    "observedGeneration": observed, "numberMisscheduled": misscheduled,
                    "currentNumberScheduled": 1, "desiredNumberScheduled": 1, "numberReady": 1,
                },
            }))
        };
        let revision = |owner: &str, number: i64, hash: &str| {
            read::<ControllerRevision>(json!({
                "metadata": {
                    "labels": {REVISION_LABEL: hash},
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": owner}],
                },
                "revision": number,
            }))
        };
        // A roll-back gives the old template the highest number.
        let all = [revision("ds", 3, "old"), revision("ds", 2, "new"), revision("other", 9, "other")];
        let table = [
            (set("RollingUpdate", 0, 2), "old", Interest::Lost),
            (set("RollingUpdate", 0, 2), "new", Interest::Kept),
            (set("RollingUpdate", 1, 2), "old", Interest::Kept),
            (set("RollingUpdate", 0, 1), "old", Interest::Kept),
            (set("OnDelete", 0, 2), "new", Interest::Lost),
        ];
        for (set, hash, interest) in table {
            assert_eq!(of_daemon_set(&set, &all, &pod("d-x", hash)), interest, "{hash} {:?}", set.status);
        }
        assert_eq!(of_daemon_set(&set("RollingUpdate", 0, 2), &[], &pod("d-x", "old")), Interest::Kept);
    }
}
