use evacuation_api::{Evacuation, NodeEvacuation};
use serde_json::{Value, json};

use super::{Canvas, drain, evacuations};
use crate::{moment::Now, tracked::Tracked};

const WIDE: Canvas = Canvas { width: 120, height: 40, colours: false };

fn now() -> Now {
    Now { time: "2026-11-20T22:05:00Z".parse().unwrap(), led: true }
}

fn drain_of(status: &Value) -> NodeEvacuation {
    serde_json::from_value(json!({
        "metadata": {"name": "d"}, "spec": {"nodes": {"names": ["a"]}}, "status": status,
    }))
    .unwrap()
}

fn blocker(pod: &str) -> Value {
    json!({"node": "a", "pod": pod, "reason": "BudgetAllowsNone", "since": "2026-11-20T22:00:00Z", "stuck": true,
           "owner": "StatefulSet/db", "message": "budget db allows none\u{7}; what helps: raise maxUnavailable"})
}

fn stuck(blockers: usize) -> Value {
    let blockers: Vec<_> = (0..blockers).map(|number| blocker(&format!("shop/db-{number}"))).collect();
    json!({
        "verdict": "Stuck", "message": "1 pod cannot move", "pods": {"total": 7, "gone": 4},
        "startTime": "2026-11-20T22:03:20Z", "expectedCompletion": "2026-11-20T22:05:42Z",
        "nodes": [
            {"name": "a", "phase": "Draining", "verdict": "Stuck", "pods": {"total": 4, "gone": 1}},
            {"name": "node-b", "phase": "Drained", "verdict": "Drained", "pods": {"total": 6, "gone": 6}},
            {"name": "c", "phase": "Withdrawn", "message": "someone uncordoned it"},
        ],
        "blockers": blockers, "blockersOmitted": 3,
    })
}

fn tracked(pod: &str, status: &Value) -> Tracked {
    let evacuation: Evacuation = serde_json::from_value(json!({
        "metadata": {"name": pod, "namespace": "shop", "uid": pod},
        "spec": {"target": {"pod": {"name": pod}}}, "status": status,
    }))
    .unwrap();
    Tracked::of(&evacuation)
}

fn answered(pod: &str, answer: &str, message: &str) -> Tracked {
    let until = (answer == "Delay").then_some("2026-11-20T22:05:42Z");
    let responder = json!({
        "name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 600, "state": "Active",
        "activeTime": "2026-11-20T22:05:00Z", "answer": answer, "message": message, "delayUntil": until,
    });
    tracked(pod, &json!({"responders": [responder]}))
}

fn blocked(pod: &str) -> Tracked {
    let condition = json!({"type": "Blocked", "status": "True", "reason": "BudgetExhausted", "message": "",
                           "lastTransitionTime": "2026-11-20T22:00:00Z"});
    tracked(
        pod,
        &json!({
            "conditions": [condition], "responders": [],
            "eviction": {"blockedBy": [{"kind": "PodDisruptionBudget", "name": "db"}]},
        }),
    )
}

fn gone(pod: &str) -> Tracked {
    let condition = json!({"type": "Evacuated", "status": "True", "reason": "Evicted", "message": "",
                           "lastTransitionTime": "2026-11-20T22:00:00Z"});
    tracked(pod, &json!({"conditions": [condition]}))
}

#[test]
fn a_drain_has_a_bar_for_each_node_the_pods_that_are_left_and_what_holds_them() {
    let pods = [
        answered("worker", "Delay", "3 jobs\u{1b}"),
        blocked("db-0"),
        answered("backup", "Refuse", "runs"),
        gone("x"),
    ];
    let pods: Vec<_> = pods.iter().collect();
    let lines = drain(&drain_of(&stuck(1)), &pods, &Canvas { width: 90, ..WIDE }, now());
    assert_eq!(
        lines,
        [
            "d  Stuck  7 gone, 1 blocked by budget shop/db, 1 delayed, 1 refused",
            "a       [#######.......................]  1/4  Stuck",
            "node-b  [##############################]  6/6  Drained",
            "c       [..............................]  0/0  Withdrawn someone uncordoned it",
            "  shop/backup   Refused   \"runs\"",
            "  shop/worker   Delayed   \"3 jobs \", until 22:05:42Z (in 42 s)",
            "held back by",
            "  BudgetAllowsNone shop/db-0 of StatefulSet/db: budget db allows none",
            "    what helps: raise maxUnavailable",
            "  3 more held back: see kubectl evacuate status --watch=false d",
            "expected end 22:05:42Z (in 42 s), running for 100 s",
        ]
    );
}

/// The command prints the message of the drain after the last drawing.
#[test]
fn a_drain_that_has_ended_says_once_why_a_node_was_not_drained() {
    let mut status = stuck(0);
    status["message"] = json!("not drained: c: someone uncordoned it; 7 pods are gone");
    let reason = |status: &Value| {
        let lines = drain(&drain_of(status), &[], &Canvas { width: 90, ..WIDE }, now());
        lines.iter().find(|line| line.starts_with("c ")).unwrap().ends_with("Withdrawn someone uncordoned it")
    };
    assert!(reason(&status), "it goes on with other nodes");
    status["conditions"] = json!([{"type": "Finished", "status": "True", "reason": "NodesLeft", "message": "",
                                   "lastTransitionTime": "2026-11-20T22:00:00Z"}]);
    assert!(!reason(&status));
}

#[test]
fn no_drawing_is_wider_or_higher_than_the_terminal() {
    let pods: Vec<_> =
        (0..50).map(|number| answered(&format!("pod-{number}"), "Refuse", &"x".repeat(300))).collect();
    let pods: Vec<_> = pods.iter().collect();
    let mut status = stuck(20);
    for (number, blocker) in status["blockers"].as_array_mut().unwrap().iter_mut().enumerate() {
        blocker["message"] = json!(format!("budget db-{number} allows none; what helps: raise it"));
    }
    let node = |number: usize| json!({"name": format!("node-{number}-{}", "y".repeat(100)), "phase": "Draining", "pods": {"total": 9}});
    status["nodes"] = (0..30).map(node).collect();
    for (width, height) in [(20, 8), (80, 24), (200, 50), (1, 1)] {
        for colours in [false, true] {
            let lines = drain(&drain_of(&status), &pods, &Canvas { width, height, colours }, now());
            assert!(lines.len() < height.max(7), "{} lines of {height}", lines.len());
            for line in &lines {
                assert!(console::measure_text_width(line) <= width.max(30), "{width}: {line}");
            }
        }
    }
    let lines = drain(&drain_of(&status), &pods, &Canvas { height: 30, ..WIDE }, now());
    for part in ["and 22 more nodes", "more pods", "more held back"] {
        assert!(lines.iter().any(|line| line.contains(part)), "{part:?} is not in {lines:#?}");
    }
}

#[test]
fn pods_that_the_same_cause_holds_share_one_blocker() {
    let lines = drain(&drain_of(&stuck(5)), &[], &WIDE, now());
    let held: Vec<_> = lines.iter().filter(|line| line.contains("BudgetAllowsNone")).collect();
    assert_eq!(
        held,
        [
            "  BudgetAllowsNone shop/db-0, shop/db-1, shop/db-2 and 2 more of StatefulSet/db: budget db allows none"
        ]
    );
    assert!(lines.iter().any(|line| line.contains("3 more held back")), "{lines:?}");
}

#[test]
fn while_no_controller_works_the_drawing_promises_nothing() {
    let worker = answered("worker", "Delay", "3 jobs");
    let mut paused = drain_of(&stuck(1));
    paused.spec.paused = true;
    let lines = drain(&paused, &[&worker], &WIDE, Now { led: false, ..now() });
    assert!(lines.contains(&"  shop/worker   Delayed   \"3 jobs\"".to_owned()), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("what helps")), "{lines:#?}");
    assert_eq!(lines.last().map(String::as_str), Some("waits for a controller, running for 100 s"));
}

#[test]
fn colours_say_what_is_stuck_and_what_is_done() {
    let lines = drain(&drain_of(&stuck(1)), &[], &Canvas { colours: true, ..WIDE }, now());
    assert!(lines[0].contains("\u{1b}[31mStuck"), "{lines:?}");
    assert!(lines[2].contains("\u{1b}[32m━"), "{lines:?}");
}

#[test]
fn a_drain_that_waits_says_for_what() {
    let mut waiting = drain_of(&json!({
        "verdict": "Waiting", "message": "its window opens at 22:30", "startTime": "2026-11-22T22:30:00Z",
    }));
    let lines = drain(&waiting, &[], &WIDE, now());
    assert_eq!(
        lines,
        ["d  Waiting  0 gone; its window opens at 22:30", "begins 2026-11-22T22:30:00Z (in 2 d)"]
    );
    waiting.spec.paused = true;
    let lines = drain(&waiting, &[], &WIDE, now());
    assert!(lines[1].ends_with("what helps: kubectl evacuate resume d"), "{lines:?}");
}

#[test]
fn evacuations_without_a_drain_have_one_bar() {
    let pods = [gone("a"), blocked("b")];
    let lines = evacuations(&pods.iter().collect::<Vec<_>>(), &WIDE, now());
    assert_eq!(
        lines,
        ["[###############...............] 1/2 pods ended", "  shop/b   Blocked   budget shop/db"]
    );
}
