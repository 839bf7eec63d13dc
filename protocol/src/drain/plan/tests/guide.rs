//! The rows of the guide for people who use kubectl drain: each pod, and what kubectl drain and a
//! NodeEvacuation do with it.
//!
//! The column of kubectl drain follows `k8s.io/kubectl/pkg/drain/filters.go` of version 1.37. The end-to-end
//! suite `drain` plays it with a real kubectl. The column of the NodeEvacuation is what the plan does.

use evacuation_api::PlannedAct;
use serde_json::{Value, json};

use super::*;

/// The page, and the lines before and after its rows.
const PAGE: &str = include_str!("../../../../../docs/guide/kubectl-drain.md");
const BEGIN: &str = "<!-- Compared with the code by protocol/src/drain/plan/tests/guide.rs. -->\n";
const END: &str = "<!-- The end of the compared rows. -->\n";

/// A flag of kubectl drain.
#[derive(Clone, Copy, PartialEq)]
enum Flag {
    DaemonSets,
    EmptyDir,
    Force,
    /// A selector that the pod does not match.
    Selector,
    /// A time that the pod has terminated for longer than.
    Skip,
}

impl Flag {
    fn words(self) -> &'static str {
        match self {
            Self::DaemonSets => "--ignore-daemonsets",
            Self::EmptyDir => "--delete-emptydir-data",
            Self::Force => "--force",
            Self::Selector => "--pod-selector",
            Self::Skip => "--skip-wait-for-delete-timeout",
        }
    }
}

/// A pod of the page.
struct Row {
    /// The pod in words.
    words: &'static str,
    /// The fields of a pod of a ReplicaSet that it has instead.
    pod: Value,
    /// True when its DaemonSet does not exist.
    orphan: bool,
    /// True when it comes during the drain.
    late: bool,
    /// The flags that change what kubectl drain does with it.
    flags: &'static [Flag],
    /// The rules that change what a NodeEvacuation does with it, in words and as `spec.pods`.
    rules: Vec<(&'static str, Value)>,
}

fn row(words: &'static str, pod: Value, flags: &'static [Flag], rules: Vec<(&'static str, Value)>) -> Row {
    Row { words, pod, orphan: false, late: false, flags, rules }
}

fn owned_by(api_version: &str, kind: &str) -> Value {
    let owner = json!({"apiVersion": api_version, "kind": kind, "name": "o", "uid": "2", "controller": true});
    json!({"metadata": {"ownerReferences": [owner]}})
}

/// Returns the pods of the page, in its order.
fn rows() -> Vec<Row> {
    let daemon_sets = || {
        vec![
            ("daemonSets: Refuse", json!({"daemonSets": "Refuse"})),
            ("daemonSets: Last", json!({"daemonSets": "Last"})),
        ]
    };
    let unmanaged = || vec![("unmanaged: Evict", json!({"unmanaged": "Evict"}))];
    let empty_dir = json!({"volumes": [{"name": "v", "emptyDir": {}}], "containers": []});
    let bare = json!({"ownerReferences": []});
    let mirror = json!({"ownerReferences": [], "annotations": {"kubernetes.io/config.mirror": "x"}});
    let released = json!({"ownerReferences": [], "annotations": {"surge.evacuation.dev/released": "{}"}});
    let mut no_controller = owned_by("apps/v1", "ReplicaSet");
    no_controller["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    let mut done = owned_by("apps/v1", "DaemonSet");
    done["status"] = json!({"phase": "Succeeded"});
    let mut pinned = owned_by("acme.io/v1", "Agent");
    let name = json!({"key": "metadata.name", "operator": "In", "values": ["a"]});
    let required = json!({"nodeSelectorTerms": [{"matchFields": [name]}]});
    pinned["spec"] = json!({
        "nodeName": "a", "containers": [],
        "tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
    });
    let terminating = |second| json!({"metadata": {"deletionTimestamp": at(second).to_rfc3339()}});
    vec![
        row("with a controller, also one that does not exist", json!({}), &[], Vec::new()),
        row("mirror of a static pod", json!({"metadata": mirror}), &[], Vec::new()),
        row("of a DaemonSet", owned_by("apps/v1", "DaemonSet"), &[Flag::DaemonSets], daemon_sets()),
        row("of a `DaemonSet` of another API group", owned_by("acme.io/v1", "DaemonSet"), &[], daemon_sets()),
        row(
            "pinned to its node by a controller of another kind, and tolerates the cordon ([which](../reference/drains.md#pods-that-are-pinned-to-their-node))",
            pinned,
            &[],
            daemon_sets(),
        ),
        Row {
            orphan: true,
            ..row(
                "of a DaemonSet that does not exist",
                owned_by("apps/v1", "DaemonSet"),
                &[Flag::Force],
                unmanaged(),
            )
        },
        row("without a controller", json!({"metadata": bare}), &[Flag::Force], unmanaged()),
        row("with an owner that is not its controller", no_controller, &[Flag::Force], unmanaged()),
        row(
            "released by the [replacement responder](built-in.md): its replacement exists",
            json!({"metadata": released}),
            &[Flag::Force],
            Vec::new(),
        ),
        row(
            "with an emptyDir volume",
            json!({"spec": empty_dir}),
            &[Flag::EmptyDir],
            vec![("emptyDirData: Delete", json!({"emptyDirData": "Delete"}))],
        ),
        row("completed (Succeeded, Failed), also one of a DaemonSet", done, &[], Vec::new()),
        row("already terminating", terminating(60), &[], Vec::new()),
        row(
            "terminating since long after its grace period",
            terminating(-60),
            &[Flag::Skip],
            vec![("skipTerminatingSeconds", json!({"skipTerminatingSeconds": 30}))],
        ),
        row(
            "with other labels",
            json!({}),
            &[Flag::Selector],
            vec![("selector", json!({"selector": {"matchLabels": {"app": "db"}}}))],
        ),
        Row {
            late: true,
            ..row(
                "comes during the drain",
                json!({"metadata": {"creationTimestamp": at(5).to_rfc3339()}}),
                &[],
                vec![("late: Skip", json!({"late": "Skip"}))],
            )
        },
    ]
}

/// Returns what kubectl drain does with a pod, by its filters in their order. Each filter passes a pod on.
fn kubectl_drain(row: &Row, given: &[Flag]) -> &'static str {
    let with = |flag| given.contains(&flag);
    let has = |path: &str| row.pod.pointer(path).is_some_and(|value| !value.is_null());
    let ended = row.pod.pointer("/status/phase") == Some(&json!("Succeeded"));
    let owner = row.pod.pointer("/metadata/ownerReferences/0");
    let of_owner = |field: &str| owner.and_then(|owner| owner.get(field)).and_then(Value::as_str);
    // Without other owners, it is a pod of a ReplicaSet.
    let is_managed = !has("/metadata/ownerReferences")
        || owner.is_some_and(|owner| owner.get("controller") == Some(&json!(true)));
    let of_daemon_set = of_owner("kind") == Some("DaemonSet") && of_owner("apiVersion") == Some("apps/v1");
    if row.late {
        return "not seen";
    }
    if with(Flag::Selector) || (with(Flag::Skip) && has("/metadata/deletionTimestamp")) {
        return "left alone";
    }
    if of_daemon_set && !ended {
        return match (row.orphan, with(Flag::DaemonSets)) {
            (true, _) => {
                if with(Flag::Force) {
                    "evicted"
                } else {
                    "an error"
                }
            }
            (false, true) => "left alone",
            (false, false) => "an error",
        };
    }
    if has("/metadata/annotations/kubernetes.io~1config.mirror") {
        return "left alone";
    }
    let refuses_data = has("/spec/volumes/0/emptyDir") && !with(Flag::EmptyDir);
    let refuses_bare = !is_managed && !with(Flag::Force);
    if !ended && (refuses_data || refuses_bare) { "an error" } else { "evicted" }
}

/// Returns what a NodeEvacuation with these rules for pods does with a pod.
fn drained(row: &Row, rules: &Value) -> &'static str {
    let mut cluster = Cluster::new(&["a"]);
    let mut drain = drain(json!({"pods": rules}));
    if row.orphan {
        cluster.missing_daemon_sets.insert("ns/o".to_owned());
    }
    let acts = if row.late {
        // Another pod keeps the drain in progress. A round of late pods is recorded before they are asked.
        cluster.add_pod("a", "q", &json!({}));
        cluster.begun(&mut drain);
        cluster.add_pod("a", "p", &row.pod);
        cluster.plan(&mut drain, 6);
        cluster.plan(&mut drain, 6)
    } else {
        cluster.add_pod("a", "p", &row.pod);
        cluster.begun(&mut drain)
    };
    let status = drain.status.as_ref().unwrap();
    let pods = status.pods;
    let is_last = !status.nodes[0].daemon_set_pods.is_empty();
    match acts.iter().map(String::as_str).find(|act| act.ends_with(" p")) {
        Some("ask p") => "asked",
        Some("remove p") => "deleted without being asked",
        Some(other) => panic!("{}: {other}", row.words),
        None if is_last => "asked last",
        None if pods.evicting > 0 => "waited for",
        None if pods.blocked > 0 => "refused",
        None if pods.skipped > 0 => "skipped",
        None => "left alone",
    }
}

/// Returns the cell of a row: what is done by default, and with each of these.
fn cell(default: &str, with: impl Iterator<Item = (String, &'static str)>) -> String {
    let changed = with.filter(|(_, act)| *act != default);
    let changed = changed.map(|(words, act)| format!("{act} with `{words}`"));
    std::iter::once(default.to_owned()).chain(changed).collect::<Vec<_>>().join("; ")
}

#[test]
fn the_guide_says_what_each_drain_does_with_each_pod() {
    let mut table =
        vec!["| pod | kubectl drain | NodeEvacuation |".to_owned(), "| --- | --- | --- |".to_owned()];
    for row in rows() {
        let flags = row.flags.iter().map(|flag| (flag.words().to_owned(), kubectl_drain(&row, &[*flag])));
        let theirs = cell(kubectl_drain(&row, &[]), flags);
        let rules = row.rules.iter().map(|(words, rules)| ((*words).to_owned(), drained(&row, rules)));
        let ours = cell(drained(&row, &json!({})), rules);
        table.push(format!("| {} | {theirs} | {ours} |", row.words));
    }
    let (_, rest) = PAGE.split_once(BEGIN).unwrap();
    let (written, _) = rest.split_once(END).unwrap();
    let table = table.join("\n");
    assert_eq!(written.trim(), table, "the page needs these rows:\n{table}");
}

/// Returns what the plan of such a drain says of the pod.
fn planned(row: &Row, rules: &Value) -> Option<PlannedAct> {
    let mut cluster = Cluster::new(&["a"]);
    cluster.add_pod("a", "p", &row.pod);
    let mut sight = DrainSight { nodes: cluster.nodes, ..DrainSight::default() };
    sight.pods.extend(cluster.pods.into_iter().map(|(_, pod)| pod));
    sight.pods[0].spec.get_or_insert_default().node_name = Some("a".to_owned());
    sight.missing_daemon_sets.extend(row.orphan.then(|| "ns/o".to_owned()));
    let status = preview(&drain(json!({"pods": rules})), &sight, at(0));
    status.plan.first().map(|pod| pod.act)
}

#[test]
fn the_plan_says_what_the_drain_does_with_each_pod() {
    // No plan knows which pods will come.
    for row in rows().iter().filter(|row| !row.late) {
        for rules in std::iter::once(json!({})).chain(row.rules.iter().map(|(_, rules)| rules.clone())) {
            let expected: &[Option<PlannedAct>] = match drained(row, &rules) {
                "asked" | "asked last" => &[Some(PlannedAct::Ask)],
                "deleted without being asked" => &[Some(PlannedAct::Delete)],
                "waited for" => &[Some(PlannedAct::Wait)],
                "refused" => &[Some(PlannedAct::Refuse)],
                // The plan has no pods that the selector does not pick.
                "left alone" | "skipped" => &[Some(PlannedAct::Leave), None],
                other => panic!("{}: {other}", row.words),
            };
            let found = planned(row, &rules);
            assert!(expected.contains(&found), "{} {rules}: {found:?}", row.words);
        }
    }
}
