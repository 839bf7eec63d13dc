//! Rules as sentences: what a rule does with nodes that get and lose marks.

use std::collections::{BTreeMap, BTreeSet};

use evacuation_api::{DeadlineAction, MarkedNodePhase, NodeEvacuation, NodeEvacuationRule};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::{RejectedDrain, RuleAct, RuleWorld, plan_rules};
use crate::{testing::at, time::stamp};

/// A cluster that carries a rule's acts out, in which the test sets marks.
#[derive(Default)]
struct Cluster {
    rules: Vec<NodeEvacuationRule>,
    nodes: Vec<Node>,
    drains: Vec<NodeEvacuation>,
    rejected: BTreeMap<String, RejectedDrain>,
    opened: BTreeSet<String>,
    /// The notices that the plans could not read.
    unread: Vec<String>,
}

impl Cluster {
    /// A cluster of so many unmarked nodes, with the rule `spot` for the taint `spot`.
    fn new(nodes: usize, spec: &Value) -> Self {
        let nodes = (0..nodes).map(|number| node(&format!("n{number}"), &json!({}))).collect();
        let mut cluster = Self { nodes, ..Self::default() };
        cluster.add_rule("spot", spec);
        cluster
    }

    fn add_rule(&mut self, name: &str, spec: &Value) {
        let mut all = json!({"marks": [{"taint": {"key": "spot"}}], "maxNodes": 100});
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        let rule = json!({"metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": all});
        self.rules.push(serde_json::from_value(rule).unwrap());
        self.rules.sort_by_key(|rule| rule.metadata.name.clone());
    }

    fn mark(&mut self, number: usize) {
        let name = self.nodes[number].metadata.name.clone().unwrap();
        self.nodes[number] =
            node(&name, &json!({"spec": {"taints": [{"key": "spot", "effect": "NoSchedule"}]}}));
    }

    fn unmark(&mut self, number: usize) {
        self.nodes[number].spec = None;
    }

    fn drain(&mut self, name: &str) -> &mut NodeEvacuation {
        self.drains.iter_mut().find(|drain| drain.metadata.name.as_deref() == Some(name)).unwrap()
    }

    /// Deletes a drain as the API does: its finalizer keeps it until [`Cluster::remove`].
    fn delete(&mut self, name: &str) {
        self.drain(name).metadata.deletion_timestamp = Some(evacuation_api::condition_time(at(0)));
    }

    fn remove(&mut self, name: &str) {
        self.drains.retain(|drain| drain.metadata.name.as_deref() != Some(name));
    }

    /// Sets a condition of a drain, and the node that it drains.
    fn finish(&mut self, name: &str, condition: &str) {
        self.drain(name).status = Some(
            serde_json::from_value(json!({
                "nodes": [], "pods": {}, "message": "why",
                "conditions": [{"type": condition, "status": "True", "reason": "R", "message": "",
                                "lastTransitionTime": "2024-10-04T00:00:00Z"}],
            }))
            .unwrap(),
        );
    }

    /// Plans, writes each status and carries the acts out. Returns the acts.
    fn step(&mut self, seconds: i64) -> Vec<String> {
        let world = RuleWorld {
            rejected: self.rejected.clone(),
            opened: std::mem::take(&mut self.opened),
            rules: self.rules.iter().collect(),
            nodes: self.nodes.iter().collect(),
            drains: self.drains.iter().collect(),
        };
        let plans = plan_rules(&world, at(seconds));
        let name = |drain: &NodeEvacuation| drain.metadata.name.clone().unwrap();
        let mut done = Vec::new();
        let mut statuses = Vec::new();
        let (mut opened, mut closed, mut deadlines) = (Vec::new(), Vec::new(), Vec::new());
        for plan in plans {
            statuses.push(plan.status);
            self.unread.extend(plan.unread);
            for act in plan.acts {
                done.push(match act {
                    RuleAct::Open(drain) => {
                        let mut drain = *drain;
                        drain.metadata.uid = Some(format!("uid-{}", name(&drain)));
                        drain.metadata.creation_timestamp = Some(evacuation_api::condition_time(at(seconds)));
                        let text =
                            format!("open {} {:?}", name(&drain), drain.spec.requester.deadline_seconds);
                        opened.push(drain);
                        text
                    }
                    RuleAct::SetDeadline(drain, seconds) => {
                        deadlines.push((name(drain), seconds));
                        format!("deadline {} {seconds}", name(drain))
                    }
                    RuleAct::Close(drain) => {
                        closed.push(name(drain));
                        format!("close {}", name(drain))
                    }
                    RuleAct::ReleaseFinalizer => "release".to_owned(),
                });
            }
        }
        for (rule, status) in self.rules.iter_mut().zip(statuses) {
            rule.status = Some(status);
        }
        self.opened = opened.iter().map(name).collect();
        self.drains.extend(opened);
        for (drain, seconds) in deadlines {
            self.drain(&drain).spec.requester.deadline_seconds = Some(seconds);
        }
        for drain in closed {
            self.delete(&drain);
        }
        done
    }

    /// The nodes of the first rule's status, each as `NAME PHASE`.
    fn phases(&self) -> Vec<String> {
        let status = self.rules[0].status.as_ref().unwrap();
        status.nodes.iter().map(|node| format!("{} {:?}", node.name, node.phase)).collect()
    }

    /// The number of nodes that the first rule holds back.
    fn held(&self) -> i32 {
        self.rules[0].status.as_ref().unwrap().nodes_held
    }
}

fn node(name: &str, with: &Value) -> Node {
    let mut node = json!({"metadata": {"name": name, "uid": format!("uid-{name}")}});
    for (key, value) in with.as_object().unwrap() {
        node[key] = value.clone();
    }
    serde_json::from_value(node).unwrap()
}

#[test]
fn a_node_that_gets_a_mark_is_recorded_then_drained_and_closed_when_the_mark_goes() {
    let mut cluster = Cluster::new(2, &json!({}));
    assert_eq!(cluster.step(0), [""; 0]);
    cluster.mark(1);
    assert_eq!(cluster.step(1), [""; 0], "nothing is opened before it is recorded");
    assert_eq!(cluster.step(2), ["open spot.n1 None"]);
    assert_eq!(cluster.step(3), [""; 0], "a drain is opened once");
    assert_eq!(cluster.phases(), ["n1 Draining"]);
    cluster.finish("spot.n1", "Drained");
    cluster.step(4);
    assert_eq!(cluster.phases(), ["n1 Drained"]);
    cluster.unmark(1);
    assert_eq!(cluster.step(5), ["close spot.n1"]);
    assert_eq!(cluster.step(6), [""; 0]);
    assert_eq!(cluster.phases(), [""; 0]);
}

#[test]
fn a_drain_has_an_owner_a_reason_and_the_template() {
    let template = json!({"requester": {"onRefusal": "Override"}, "pods": {"unmanaged": "Evict"}});
    let mut cluster = Cluster::new(1, &json!({"template": template}));
    cluster.mark(0);
    cluster.step(0);
    cluster.step(1);
    let drain = cluster.drain("spot.n0").clone();
    let owner = &drain.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("NodeEvacuationRule", "uid-spot"));
    assert_eq!(drain.spec.nodes.names, ["n0"]);
    assert_eq!(drain.spec.requester.message.as_deref(), Some("taint spot, nodeevacuationrule spot"));
    assert_eq!(drain.spec.pods.unmanaged, Some(evacuation_api::UnmanagedRule::Evict));
}

#[test]
fn a_drain_that_a_user_deletes_is_not_opened_again_before_the_mark_comes_anew() {
    let mut cluster = Cluster::new(1, &json!({}));
    cluster.mark(0);
    for second in 0..3 {
        cluster.step(second);
    }
    cluster.delete("spot.n0");
    assert_eq!(cluster.step(3), [""; 0]);
    assert_eq!(cluster.phases(), ["n0 Dismissed"]);
    cluster.remove("spot.n0");
    for second in 4..7 {
        assert_eq!(cluster.step(second), [""; 0]);
    }
    assert_eq!(cluster.phases(), ["n0 Dismissed"]);
    cluster.unmark(0);
    cluster.step(7);
    cluster.mark(0);
    cluster.step(8);
    assert_eq!(cluster.step(9), ["open spot.n0 None"]);
}

#[test]
fn a_drain_that_a_user_deletes_before_the_status_tells_of_it_is_not_opened_again() {
    for is_held_by_its_finalizer in [true, false] {
        let mut cluster = Cluster::new(1, &json!({}));
        cluster.mark(0);
        cluster.step(0);
        assert_eq!(cluster.step(1), ["open spot.n0 None"]);
        assert_eq!(cluster.phases(), ["n0 Pending"]);
        cluster.delete("spot.n0");
        if is_held_by_its_finalizer {
            assert_eq!(cluster.step(2), [""; 0]);
        }
        cluster.remove("spot.n0");
        for second in 3..6 {
            assert_eq!(cluster.step(second), [""; 0]);
            assert_eq!(cluster.phases(), ["n0 Dismissed"]);
        }
    }
}

#[test]
fn a_mark_that_comes_back_during_the_close_opens_a_new_drain_after_it() {
    let mut cluster = Cluster::new(1, &json!({}));
    cluster.mark(0);
    for second in 0..3 {
        cluster.step(second);
    }
    cluster.unmark(0);
    assert_eq!(cluster.step(3), ["close spot.n0"]);
    cluster.mark(0);
    assert_eq!(cluster.step(4), [""; 0]);
    assert_eq!(cluster.phases(), ["n0 Pending"]);
    cluster.remove("spot.n0");
    assert_eq!(cluster.step(5), ["open spot.n0 None"]);
}

#[test]
fn a_node_that_came_back_under_its_name_gets_a_drain_of_its_own() {
    let mut cluster = Cluster::new(1, &json!({}));
    cluster.mark(0);
    for second in 0..3 {
        cluster.step(second);
    }
    cluster.nodes[0].metadata.uid = Some("another".to_owned());
    cluster.drain("spot.n0").status = Some(
        serde_json::from_value(json!({"nodes": [{"name": "n0", "uid": "uid-n0"}], "pods": {}})).unwrap(),
    );
    assert_eq!(cluster.step(3), ["close spot.n0"]);
    cluster.remove("spot.n0");
    assert_eq!(cluster.step(4), ["open spot.n0 None"]);
}

#[test]
fn a_storm_of_marks_drains_no_more_nodes_than_the_limit_allows_also_when_they_are_drained() {
    let mut cluster = Cluster::new(20, &json!({"maxNodes": "10%"}));
    for number in 0..20 {
        cluster.mark(number);
    }
    cluster.step(0);
    assert_eq!(cluster.step(1), ["open spot.n0 None", "open spot.n1 None"]);
    assert_eq!(cluster.held(), 18);
    let status = cluster.rules[0].status.clone().unwrap();
    assert_eq!((status.nodes_drained, status.nodes_allowed), (2, 2));
    let condition = &status.conditions[0];
    assert_eq!((condition.type_.as_str(), condition.status.as_str()), ("HoldsBack", "True"));
    assert_eq!(
        condition.message,
        "18 nodes are not drained: 2 of 20 nodes are under the NodeEvacuations of rules, and maxNodes is 10%"
    );
    cluster.finish("spot.n0", "Drained");
    assert_eq!(cluster.step(2), [""; 0], "a drained node is out of service");
    cluster.unmark(0);
    assert_eq!(cluster.step(3), ["close spot.n0"]);
    assert_eq!(cluster.step(4), [""; 0], "the node is in service when its drain is gone");
    cluster.remove("spot.n0");
    cluster.step(5);
    assert_eq!(cluster.step(6).len(), 1);
    assert_eq!(cluster.held(), 17);
}

#[test]
fn the_limit_counts_the_nodes_of_all_rules_and_a_node_of_two_rules_once() {
    let mut cluster = Cluster::new(4, &json!({"maxNodes": 2}));
    cluster.add_rule("reboot", &json!({"maxNodes": 2}));
    for number in 0..4 {
        cluster.mark(number);
    }
    cluster.step(0);
    let opened = ["open reboot.n0 None", "open reboot.n1 None", "open spot.n0 None", "open spot.n1 None"];
    assert_eq!(cluster.step(1), opened);
    cluster.step(2);
    assert_eq!(
        cluster.rules.iter().map(|r| r.status.as_ref().unwrap().nodes_held).collect::<Vec<_>>(),
        [2, 2]
    );
}

#[test]
fn the_deadline_is_the_notices_and_follows_it() {
    let deadline = json!({"from": {"annotation": "at"}, "reserveSeconds": 30});
    let mut cluster = Cluster::new(1, &json!({"deadline": deadline}));
    cluster.mark(0);
    cluster.nodes[0].metadata.annotations = Some(notice("2024-10-04T00:02:00Z"));
    cluster.step(0);
    assert_eq!(cluster.step(1), ["open spot.n0 Some(89)"]);
    assert_eq!(cluster.step(2), [""; 0]);
    cluster.nodes[0].metadata.annotations = Some(notice("2024-10-04T00:01:00Z"));
    assert_eq!(cluster.step(3), ["deadline spot.n0 29"]);
    cluster.nodes[0].metadata.annotations = Some(notice("soon"));
    cluster.step(4);
    let entry = &cluster.rules[0].status.as_ref().unwrap().nodes[0];
    assert_eq!(entry.deadline, None);
    assert!(entry.message.as_ref().unwrap().starts_with("annotation at: \"soon\" is no time"));
}

/// The annotation `at` with the time of a notice.
fn notice(time: &str) -> BTreeMap<String, String> {
    [("at".to_owned(), time.to_owned())].into()
}

#[test]
fn a_notice_that_cannot_be_read_gives_the_default_deadline_and_keeps_one_that_was_read() {
    let deadline = json!({"from": {"annotation": "at"}, "defaultSeconds": 600});
    for text in [
        None,
        Some(notice("soon")),
        Some(notice("2024-10-04T00:02:00")),
        Some(notice("2024-10-03T00:00:00Z")),
    ] {
        let mut cluster = Cluster::new(1, &json!({"deadline": deadline}));
        cluster.mark(0);
        cluster.nodes[0].metadata.annotations.clone_from(&text);
        cluster.step(0);
        assert_eq!(cluster.step(1), ["open spot.n0 Some(599)"], "{text:?}");
        assert_eq!(cluster.step(2), [""; 0], "{text:?}");
        let status = cluster.rules[0].status.clone().unwrap();
        assert_eq!((status.nodes_unread, status.nodes[0].deadline), (1, Some(stamp(at(600)))), "{text:?}");
        assert!(status.nodes[0].notice_problem.is_some(), "{text:?}");
        cluster.nodes[0].metadata.annotations = Some(notice("2024-10-04T00:02:00Z"));
        assert_eq!(cluster.step(3), ["deadline spot.n0 119"], "{text:?}");
        cluster.nodes[0].metadata.annotations = text;
        assert_eq!(cluster.step(4), [""; 0], "the drain keeps its time");
        let status = cluster.rules[0].status.clone().unwrap();
        assert_eq!((status.nodes_unread, status.nodes[0].deadline), (1, Some(stamp(at(120)))));
    }
}

#[test]
fn a_notice_that_becomes_unreadable_late_does_not_end_its_drain_at_once() {
    let deadline = json!({"from": {"annotation": "at"}, "defaultSeconds": 60});
    let mut cluster = Cluster::new(1, &json!({"deadline": deadline}));
    cluster.mark(0);
    cluster.nodes[0].metadata.annotations = Some(notice("2024-10-04T02:00:00Z"));
    cluster.step(0);
    assert_eq!(cluster.step(1), ["open spot.n0 Some(7199)"]);
    cluster.nodes[0].metadata.annotations = Some(notice("later"));
    assert_eq!(cluster.step(3600), [""; 0]);
    assert_eq!(cluster.rules[0].status.as_ref().unwrap().nodes[0].deadline, Some(stamp(at(7200))));
}

#[test]
fn a_notice_that_cannot_be_read_is_told_of_once_also_while_its_drain_is_held() {
    let spec = json!({"deadline": {"from": {"annotation": "at"}}, "maxNodes": 1});
    let mut cluster = Cluster::new(2, &spec);
    for number in 0..2 {
        cluster.mark(number);
        cluster.nodes[number].metadata.annotations = Some(notice("soon"));
    }
    for second in 0..6 {
        cluster.step(second);
    }
    assert_eq!(cluster.phases(), ["n0 Draining", "n1 Held"]);
    let told = std::mem::take(&mut cluster.unread);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("node n0: annotation at: \"soon\" is no time"), "{told:?}");
    assert!(told[1].starts_with("node n1: annotation at: \"soon\" is no time"), "{told:?}");
    assert_eq!(cluster.rules[0].status.as_ref().unwrap().nodes_unread, 2);

    cluster.nodes[1].metadata.annotations = Some(notice("later"));
    for second in 6..9 {
        cluster.step(second);
    }
    let told = std::mem::take(&mut cluster.unread);
    assert_eq!(told.len(), 1, "another value: {told:?}");
    cluster.nodes[1].metadata.annotations = Some(notice("2024-10-04T01:00:00Z"));
    cluster.step(9);
    assert_eq!(cluster.unread, [""; 0]);
    let status = cluster.rules[0].status.clone().unwrap();
    assert_eq!((status.nodes_unread, status.nodes[1].notice_problem.clone()), (1, None));
}

#[test]
fn a_counted_deadline_begins_with_the_mark_also_when_the_controller_comes_late() {
    let mut cluster = Cluster::new(1, &json!({"deadline": {"afterSeconds": 120}}));
    cluster.nodes[0] = node(
        "n0",
        &json!({"spec": {"taints": [{"key": "spot", "effect": "NoExecute", "timeAdded": "2024-10-04T00:00:00Z"}]}}),
    );
    cluster.step(40);
    assert_eq!(cluster.step(41), ["open spot.n0 Some(79)"]);
    for time in [json!(null), json!("0001-01-01T00:00:00Z"), json!("1970-01-01T00:00:00Z")] {
        let mut cluster = Cluster::new(1, &json!({"deadline": {"afterSeconds": 120}}));
        let taint = json!({"key": "spot", "effect": "NoExecute", "timeAdded": time});
        cluster.nodes[0] = node("n0", &json!({"spec": {"taints": [taint]}}));
        cluster.step(40);
        assert_eq!(cluster.step(60), ["open spot.n0 Some(100)"], "{time}: it counts from its sight");
    }
}

#[test]
fn a_condition_must_last_and_the_plan_wakes_when_it_has() {
    let marks = json!([{"condition": {"type": "Ready", "status": "Unknown", "forSeconds": 60}}]);
    let mut cluster = Cluster::new(1, &json!({"marks": marks}));
    let ready = json!({"type": "Ready", "status": "Unknown", "lastTransitionTime": "2024-10-04T00:00:00Z"});
    cluster.nodes[0] = node("n0", &json!({"status": {"conditions": [ready]}}));
    let world = RuleWorld {
        rejected: BTreeMap::new(),
        opened: BTreeSet::new(),
        rules: cluster.rules.iter().collect(),
        nodes: cluster.nodes.iter().collect(),
        drains: Vec::new(),
    };
    let plans = plan_rules(&world, at(59));
    assert_eq!((plans[0].status.nodes.len(), plans[0].wake_at), (0, Some(at(60))));
    cluster.step(60);
    assert_eq!(cluster.step(60), ["open spot.n0 None"]);
}

#[test]
fn a_condition_without_a_time_counts_from_when_it_is_first_seen() {
    let marks = json!([{"condition": {"type": "KernelDeadlock", "forSeconds": 20}}]);
    for time in [json!(null), json!("0001-01-01T00:00:00Z"), json!("1970-01-01T00:00:00Z")] {
        let mut cluster = Cluster::new(1, &json!({"marks": marks}));
        let blocked = json!({"type": "KernelDeadlock", "status": "True", "lastTransitionTime": time});
        let blocked = node("n0", &json!({"status": {"conditions": [blocked]}}));
        let healthy = std::mem::replace(&mut cluster.nodes[0], blocked.clone());
        assert_eq!(cluster.step(100), [] as [&str; 0], "{time}");
        assert_eq!(cluster.phases(), ["n0 Pending"]);
        let seen = &cluster.rules[0].status.as_ref().unwrap().nodes[0];
        assert_eq!(seen.since.0, at(100));
        assert!(seen.message.as_ref().unwrap().contains("waits until 2024-10-04T00:02:00Z"), "{seen:?}");
        assert_eq!(cluster.step(119), [] as [&str; 0]);
        cluster.nodes[0] = healthy;
        cluster.step(119);
        assert_eq!(cluster.phases(), [] as [&str; 0], "it went away");
        cluster.nodes[0] = blocked;
        cluster.step(120);
        assert_eq!(cluster.step(139), [] as [&str; 0], "it is seen anew");
        assert_eq!(cluster.step(140), ["open spot.n0 None"], "{time}");
    }
}

#[test]
fn of_two_conditions_without_a_time_the_one_that_is_due_sooner_is_remembered() {
    let condition = |kind: &str, seconds: i64| json!({"condition": {"type": kind, "forSeconds": seconds}});
    for kinds in [["Slow", "Soon"], ["Soon", "Slow"]] {
        let marks = kinds.map(|kind| condition(kind, if kind == "Soon" { 20 } else { 3600 }));
        let mut cluster = Cluster::new(1, &json!({"marks": marks}));
        let conditions = kinds.map(|kind| json!({"type": kind, "status": "True"}));
        cluster.nodes[0] = node("n0", &json!({"status": {"conditions": conditions}}));
        for second in [0, 10, 19] {
            assert_eq!(cluster.step(second), [] as [&str; 0], "{kinds:?}");
        }
        assert_eq!(cluster.step(20), ["open spot.n0 None"], "{kinds:?}");
    }
}

/// A cluster of so many nodes, whose rule drains those with the taint `spot`, and those that have the
/// condition `KernelDeadlock` for 20 s.
fn cluster_of_two_marks(nodes: usize) -> Cluster {
    let condition = json!({"condition": {"type": "KernelDeadlock", "forSeconds": 20}});
    Cluster::new(nodes, &json!({"marks": [{"taint": {"key": "spot"}}, condition], "maxNodes": "100%"}))
}

/// A node with a condition that does not tell since when it is true.
fn deadlocked(number: usize) -> Node {
    let condition = json!({"type": "KernelDeadlock", "status": "True"});
    node(&format!("n{number}"), &json!({"status": {"conditions": [condition]}}))
}

#[test]
fn a_condition_without_a_time_takes_the_next_place_of_a_full_list_and_is_counted_as_held_until_then() {
    let mut cluster = cluster_of_two_marks(520);
    (0..500).for_each(|number| cluster.mark(number));
    cluster.step(0);
    assert_eq!((cluster.phases().len(), cluster.held()), (500, 0));
    cluster.nodes[519] = deadlocked(519);
    (500..519).for_each(|number| cluster.mark(number));
    cluster.step(1);
    assert_eq!(cluster.held(), 20, "no node of the list leaves it for another");
    cluster.unmark(0);
    cluster.step(2);
    assert!(cluster.phases().contains(&"n519 Pending".to_owned()));
    assert_eq!((cluster.phases().len(), cluster.held()), (500, 19));
    assert_eq!(cluster.step(21), [] as [&str; 0]);
    assert_eq!(cluster.step(22), ["open spot.n519 None"]);
}

#[test]
fn the_longest_waiting_conditions_without_a_time_keep_their_places_beside_new_marks() {
    let mut cluster = cluster_of_two_marks(600);
    (40..100).for_each(|number| cluster.nodes[number] = deadlocked(number));
    cluster.step(0);
    (0..40).for_each(|number| cluster.nodes[number] = deadlocked(number));
    (100..600).for_each(|number| cluster.mark(number));
    cluster.step(5);
    let waiting = |cluster: &Cluster| {
        let nodes = cluster.rules[0].status.as_ref().unwrap().nodes.iter();
        let waiting = nodes.filter(|node| node.mark.contains("KernelDeadlock"));
        waiting.map(|node| node.since.0).collect::<Vec<_>>()
    };
    assert_eq!(waiting(&cluster), vec![at(0); 50]);
    assert_eq!((cluster.phases().len(), cluster.held()), (500, 100));
    let opened = cluster.step(20);
    let due = (40..100).filter(|number| opened.contains(&format!("open spot.n{number} None"))).count();
    assert_eq!(due, 50, "those that waited for 20 s are drained");
}

#[test]
fn a_condition_that_a_drain_wrote_is_no_mark() {
    let marks = json!([{"condition": {"type": "MaintenancePlanned"}}]);
    let mut cluster = Cluster::new(2, &json!({"marks": marks}));
    for (number, reason) in ["NodeEvacuation", "MaintenanceWindow"].into_iter().enumerate() {
        let planned = json!({"type": "MaintenancePlanned", "status": "True", "reason": reason});
        let name = format!("n{number}");
        cluster.nodes[number] = node(&name, &json!({"status": {"conditions": [planned]}}));
    }
    cluster.step(0);
    assert_eq!(cluster.phases(), ["n1 Pending"]);
}

#[test]
fn labels_and_annotations_count_by_key_and_by_value() {
    for (mark, with, is_marked) in [
        (json!({"label": {"key": "retire"}}), json!({"labels": {"retire": "x"}}), true),
        (json!({"label": {"key": "retire", "value": "yes"}}), json!({"labels": {"retire": "x"}}), false),
        (json!({"annotation": {"key": "reboot"}}), json!({"annotations": {"reboot": ""}}), true),
        (json!({"annotation": {"key": "reboot"}}), json!({"labels": {"reboot": ""}}), false),
    ] {
        let mut cluster = Cluster::new(1, &json!({"marks": [mark]}));
        let mut metadata = json!({"name": "n0", "uid": "uid-n0"});
        metadata.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
        cluster.nodes[0] = node("n0", &json!({"metadata": metadata}));
        cluster.step(0);
        assert_eq!(cluster.phases().len(), usize::from(is_marked), "{mark} {with}");
    }
}

#[test]
fn a_rule_is_made_for_the_nodes_of_its_selector() {
    let mut cluster = Cluster::new(2, &json!({"nodeSelector": {"matchLabels": {"pool": "a"}}}));
    cluster.mark(0);
    cluster.mark(1);
    cluster.nodes[1].metadata.labels = Some([("pool".to_owned(), "a".to_owned())].into());
    cluster.step(0);
    assert_eq!(cluster.phases(), ["n1 Pending"]);
}

#[test]
fn a_paused_rule_opens_nothing_and_keeps_what_it_opened() {
    let mut cluster = Cluster::new(2, &json!({}));
    cluster.mark(0);
    for second in 0..3 {
        cluster.step(second);
    }
    cluster.rules[0].spec.paused = true;
    cluster.mark(1);
    for second in 3..6 {
        assert_eq!(cluster.step(second), [""; 0]);
    }
    assert_eq!(cluster.phases(), ["n0 Draining", "n1 Held"]);
    cluster.rules[0].spec.paused = false;
    cluster.step(6);
    assert_eq!(cluster.step(7), ["open spot.n1 None"]);
    cluster.step(8);
    let condition = cluster.rules[0].status.as_ref().unwrap().conditions[0].clone();
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "NothingHeld"));
}

#[test]
fn a_drain_of_that_name_by_a_user_is_left_alone() {
    let mut cluster = Cluster::new(1, &json!({}));
    let theirs = json!({"metadata": {"name": "spot.n0"}, "spec": {"nodes": {"names": ["n0"]}}});
    cluster.drains.push(serde_json::from_value(theirs).unwrap());
    cluster.mark(0);
    for second in 0..3 {
        assert_eq!(cluster.step(second), [""; 0]);
    }
    assert_eq!(cluster.phases(), ["n0 Held"]);
    cluster.unmark(0);
    assert_eq!(cluster.step(3), [""; 0]);
}

#[test]
fn a_failed_drain_is_shown_and_not_opened_again() {
    let mut cluster = Cluster::new(1, &json!({}));
    cluster.mark(0);
    for second in 0..3 {
        cluster.step(second);
    }
    cluster.finish("spot.n0", "Failed");
    assert_eq!(cluster.step(3), [""; 0]);
    let entry = &cluster.rules[0].status.as_ref().unwrap().nodes[0];
    assert_eq!((entry.phase, entry.message.as_deref()), (MarkedNodePhase::Failed, Some("why")));
}

#[test]
fn a_deleted_rule_closes_its_drains_and_is_released_when_they_are_gone() {
    let mut cluster = Cluster::new(1, &json!({}));
    cluster.mark(0);
    for second in 0..3 {
        cluster.step(second);
    }
    cluster.rules[0].metadata.deletion_timestamp = Some(evacuation_api::condition_time(at(3)));
    assert_eq!(cluster.step(3), ["close spot.n0"]);
    assert_eq!(cluster.step(4), [""; 0]);
    cluster.remove("spot.n0");
    assert_eq!(cluster.step(5), ["release"]);
}

#[test]
fn more_marked_nodes_than_a_status_holds_are_counted_as_held() {
    let mut cluster = Cluster::new(505, &json!({"maxNodes": "100%"}));
    for number in 0..505 {
        cluster.mark(number);
    }
    cluster.step(0);
    assert_eq!((cluster.phases().len(), cluster.held()), (500, 5));
}

#[test]
fn the_name_of_a_drain_is_short_enough_for_its_entries() {
    let long = "n".repeat(250);
    let mut cluster = Cluster::new(1, &json!({}));
    cluster.nodes[0] = node(
        &long,
        &json!({"metadata": {"name": long, "uid": "6f1c"}, "spec": {"taints": [{"key": "spot", "effect": ""}]}}),
    );
    cluster.step(0);
    assert_eq!(cluster.step(1), ["open spot.6f1c None"]);
}

#[test]
fn a_drain_without_a_deadline_has_no_action_at_one() {
    let at_deadline = |deadline: Value| {
        let template = json!({"requester": {"atDeadline": "Delete"}});
        let mut cluster = Cluster::new(1, &json!({"template": template, "deadline": deadline}));
        cluster.mark(0);
        cluster.step(0);
        cluster.step(1);
        let requester = cluster.drain("spot.n0").spec.requester.clone();
        (requester.deadline_seconds, requester.at_deadline)
    };
    assert_eq!(at_deadline(json!({"from": {"annotation": "at"}})), (None, None), "the notice has no time");
    assert_eq!(at_deadline(json!({"afterSeconds": 10})), (Some(9), Some(DeadlineAction::Delete)));
}

#[test]
fn a_drain_that_the_server_rejects_is_held_tried_again_and_takes_no_place_of_others() {
    let mut cluster = Cluster::new(2, &json!({"maxNodes": 1}));
    let message = "User \"jane\" cannot patch nodes".to_owned();
    cluster.rejected.insert("spot.n0".to_owned(), RejectedDrain { message, retry: at(30) });
    cluster.mark(0);
    cluster.mark(1);
    cluster.step(0);
    assert_eq!(cluster.step(1), ["open spot.n1 None"], "the limit of one node is not used up");
    assert_eq!(cluster.phases(), ["n0 Held", "n1 Pending"]);
    let status = cluster.rules[0].status.clone().unwrap();
    let said = status.nodes[0].message.clone().unwrap();
    assert_eq!(said, "the API server rejects nodeevacuation spot.n0: User \"jane\" cannot patch nodes");
    cluster.remove("spot.n1");
    cluster.unmark(1);
    assert_eq!(cluster.step(29), [""; 0]);
    assert_eq!(cluster.step(30), ["open spot.n0 None"]);
}
