use super::*;
use crate::testing::at;
use serde_json::{Value, json};

/// A running pod that a ReplicaSet manages, with what `patch` says instead.
fn pod(name: &str, patch: &Value) -> Pod {
    let mut value = json!({
        "metadata": {"name": name, "namespace": "ns", "labels": {"app": "db"}, "ownerReferences": [owner("ReplicaSet")]},
        "spec": {"containers": []},
        "status": {"phase": "Running"},
    });
    merge(&mut value, patch);
    serde_json::from_value(value).unwrap()
}

fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

fn owner(kind: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "1", "controller": true})
}

/// The fate of one pod as a word.
fn fate(patch: &Value, filters: &DrainFilters) -> String {
    let pods = [pod("p", patch)];
    let picked = pick(&pods, filters, at(1000));
    let mut words = Vec::new();
    words.extend(picked.evacuate.iter().map(|_| "evacuate".to_owned()));
    words.extend(picked.warnings.iter().map(|(_, why)| format!("warn {why:?}")));
    words.extend(picked.completed.iter().map(|_| "complete".to_owned()));
    words.extend(picked.skipped.iter().map(|(_, why)| format!("skip {why:?}")));
    words.extend(picked.refused.iter().map(|(_, why)| format!("refuse {why:?}")));
    words.join(", ")
}

#[test]
fn each_filter_means_what_kubectl_drain_means_by_it() {
    let plain = DrainFilters::default();
    let ignoring = DrainFilters { daemon_sets: DaemonSetRule::Skip, ..plain.clone() };
    let last = DrainFilters { daemon_sets: DaemonSetRule::Last, ..plain.clone() };
    let with_data = DrainFilters { delete_empty_dir_data: true, ..plain.clone() };
    let force = DrainFilters { force: true, ..plain.clone() };
    let orphans = DrainFilters { missing_daemon_sets: ["ns/o".to_owned()].into(), ..plain.clone() };
    let last_orphans = DrainFilters { daemon_sets: DaemonSetRule::Last, ..orphans.clone() };
    let forced_orphans = DrainFilters { force: true, ..orphans.clone() };
    let impatient = DrainFilters { skip_wait_for_delete_seconds: 60, ..plain.clone() };

    let daemon = json!({"metadata": {"ownerReferences": [owner("DaemonSet")]}});
    let mut of_others = daemon.clone();
    of_others["metadata"]["ownerReferences"][0]["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    let mirror =
        json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": null}});
    let scratch = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
    let mut daemon_scratch = daemon.clone();
    merge(&mut daemon_scratch, &scratch);
    let bare = json!({"metadata": {"ownerReferences": null}});
    let released = json!({"metadata": {"ownerReferences": null, "annotations": {"surge.evacuation.dev/released": "{}"}}});
    let bare_scratch =
        json!({"metadata": {"ownerReferences": null}, "spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
    let terminating = |seconds| json!({"metadata": {"deletionTimestamp": at(seconds).to_rfc3339()}});
    let ended = |mut pod: Value| {
        merge(&mut pod, &json!({"status": {"phase": "Failed"}}));
        pod
    };
    let succeeded = json!({"status": {"phase": "Succeeded"}});
    let ended_bare_scratch = ended(bare_scratch.clone());
    let (ended_daemon, ended_mirror) = (ended(daemon.clone()), ended(mirror.clone()));
    let (ended_long_ago, ended_just_now) = (ended(terminating(939)), ended(terminating(940)));

    let table = [
        (&json!({}), &plain, "evacuate"),
        (&daemon, &plain, "refuse DaemonSet"),
        (&daemon, &ignoring, "skip DaemonSet"),
        (&daemon, &last, "evacuate"),
        (&daemon_scratch, &last, "refuse LocalStorage"),
        (&daemon_scratch, &ignoring, "skip DaemonSet"),
        (&daemon, &orphans, "refuse MissingDaemonSet"),
        (&daemon, &last_orphans, "refuse MissingDaemonSet"),
        (&daemon, &forced_orphans, "evacuate, warn MissingDaemonSet"),
        (&of_others, &orphans, "refuse DaemonSet"),
        (&of_others, &ignoring, "skip DaemonSet"),
        (&of_others, &last_orphans, "evacuate"),
        (&mirror, &plain, "skip Mirror"),
        (&scratch, &plain, "refuse LocalStorage"),
        (&scratch, &with_data, "evacuate, warn LocalStorage"),
        (&bare, &plain, "refuse Unmanaged"),
        (&bare, &force, "evacuate, warn Unmanaged"),
        (&released, &plain, "evacuate"),
        (&bare_scratch, &plain, "refuse LocalStorage, refuse Unmanaged"),
        (&bare_scratch, &force, "refuse LocalStorage"),
        (&succeeded, &plain, "complete"),
        (&ended_bare_scratch, &plain, "complete"),
        (&ended_daemon, &plain, "complete"),
        (&ended_daemon, &ignoring, "complete"),
        (&ended_daemon, &orphans, "complete"),
        (&ended_mirror, &force, "skip Mirror"),
        (&ended_long_ago, &impatient, "skip Terminating"),
        (&ended_just_now, &impatient, "complete"),
        (&terminating(939), &impatient, "skip Terminating"),
        (&terminating(940), &impatient, "evacuate"),
        (&terminating(0), &plain, "evacuate"),
    ];
    for (patch, filters, expected) in table {
        assert_eq!(fate(patch, filters), expected, "{patch} {filters:?}");
    }
}

#[test]
fn pods_of_lower_priority_go_first_then_by_namespace_and_name() {
    let with = |name: &str, namespace: &str, priority: Option<i32>| {
        pod(name, &json!({"metadata": {"namespace": namespace}, "spec": {"priority": priority}}))
    };
    let pods = [
        with("c", "ns", Some(2_000_000_000)),
        with("b", "ns", None),
        with("a", "z", Some(0)),
        with("a", "ns", Some(0)),
        with("d", "ns", Some(-5)),
    ];
    let picked = pick(&pods, &DrainFilters::default(), at(0));
    let names: Vec<_> = picked
        .evacuate
        .iter()
        .map(|p| {
            format!("{}/{}", p.metadata.namespace.as_deref().unwrap(), p.metadata.name.as_deref().unwrap())
        })
        .collect();
    assert_eq!(names, ["ns/d", "ns/a", "ns/b", "z/a", "ns/c"]);
}

#[test]
fn a_controller_whose_name_no_daemon_set_can_have_counts_as_missing_and_is_not_read() {
    for name in ["a b", "%", "x?watch=true", "../x", "Upper", ""] {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": "x", "controller": true}]},
        }))
        .unwrap();
        assert_eq!(daemon_set_key(&pod), None, "{name:?}");
        let picked = pick(
            [&pod],
            &DrainFilters { daemon_sets: DaemonSetRule::Skip, ..DrainFilters::default() },
            at(0),
        );
        assert_eq!(picked.refused, [(&pod, DrainRefusal::MissingDaemonSet)], "{name:?}");
    }
}
