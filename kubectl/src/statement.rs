//! A drain in one line: its state, what comes next, and whether a person has to do something. Pure.

use std::collections::BTreeSet;

use evacuation_api::{DeadlineAction, DrainBlocker, DrainVerdict, NodeEvacuation, NodeEvacuationStatus};
use kube::ResourceExt;

use crate::{
    blockers::dead_node,
    drain_ref::has_ended,
    moment::{Now, WAITS, count},
    next::{Next, Step},
    plain::{needs_nothing, plain},
    summary::progress,
    tracked::Tracked,
    verdict::verdict,
};

/// The line of a drain.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) text: String,
    /// The only pod that it names, which needs no other line.
    pub(crate) pod: Option<String>,
}

impl Statement {
    /// Describes a drain with the pods that it has asked, as far as they are known.
    pub(crate) fn of(drain: &NodeEvacuation, pods: &[&Tracked], now: Now) -> Self {
        let empty = NodeEvacuationStatus::default();
        let status = drain.status.as_ref().unwrap_or(&empty);
        let (gone, total) = progress(status, pods);
        let state = format!("{}, {gone}/{total} gone", verdict(drain));
        if has_ended(drain) {
            let end = status.finish_time.as_ref().map(|time| format!(", since {}", now.since(time.0)));
            return Self { text: format!("{state}{}.", end.unwrap_or_default()), pod: None };
        }
        let mut sentences = vec![state];
        let mut pod = None;
        if !now.led {
            sentences.push(format!("It {WAITS}"));
        } else if drain.metadata.deletion_timestamp.is_some() {
            sentences.push("Its requests are being taken back, and its nodes released".to_owned());
        } else if drain.spec.paused {
            // No period, which would belong to the command.
            let text =
                format!("{}. What helps: kubectl evacuate resume {}", sentences.join(". "), drain.name_any());
            return Self { text, pod: None };
        } else {
            let next = next(pods, now);
            pod = next.as_ref().and_then(|next| next.1.clone());
            let next = next.map(|next| next.0).or_else(|| begins(status, now)).or_else(|| ends(status, now));
            sentences.extend(next);
            sentences.extend(to_do(status));
        }
        pod = pod.filter(|pod| !is_stuck(status, pod));
        Self { text: format!("{}.", sentences.join(". ")), pod }
    }
}

/// Returns the earliest step of the pods as a sentence, and the pod if it is only one.
fn next(pods: &[&Tracked], now: Now) -> Option<(String, Option<String>)> {
    let open = pods.iter().filter(|pod| pod.end.is_none());
    let mut due: Vec<(&Tracked, Next)> =
        open.filter_map(|pod| Some((*pod, pod.next.filter(|next| next.is_due(now))?))).collect();
    due.sort_by_key(|(pod, next)| (next.time, pod.pod.clone()));
    let (pod, first) = due.first()?;
    let others = due.iter().skip(1).filter(|(_, next)| next.time == first.time).count();
    let more = if others == 0 { String::new() } else { format!(" and {others} more") };
    let text = plain(&format!("Next: {}, {}{more}", now.at(first.time), words(pod, first.step)));
    Some((text, (others == 0).then(|| pod.pod.clone())))
}

fn words(pod: &Tracked, step: Step) -> String {
    let name = &pod.pod;
    match (step, &pod.said) {
        (Step::DelayEnds, Some(said)) => format!("{name} \"{said}\""),
        (Step::DelayEnds, None) => format!("{name} asked for a delay"),
        (Step::SilenceEnds, _) => match &pod.problem {
            Some(problem) => format!("{name} has not answered: {problem}"),
            None => format!("{name} has not answered"),
        },
        (Step::WindowOpens, _) => format!("{name} waits for its window"),
        (Step::AsksAgain, _) => format!("{name} may be asked again"),
        (Step::PassesBudget, _) => format!("{name} waits for its budget"),
        (Step::CallersTimeEnds, _) => format!("{name} is evicted unless its caller deletes it first"),
        (Step::Deadline(DeadlineAction::Evict), _) => format!("{name} is evicted at its deadline"),
        (Step::Deadline(DeadlineAction::Delete), _) => format!("{name} is deleted at its deadline"),
        (Step::Deadline(DeadlineAction::GiveUp), _) => format!("{name} is left alone at its deadline"),
    }
}

/// Returns the opening of the drain's window.
fn begins(status: &NodeEvacuationStatus, now: Now) -> Option<String> {
    let start = status.start_time.filter(|start| status.nodes.is_empty() && now.time < start.0)?;
    Some(format!("Next: {}, its window opens", now.at(start.0)))
}

fn ends(status: &NodeEvacuationStatus, now: Now) -> Option<String> {
    status.expected_completion.map(|end| format!("Expected end: {}", now.at(end.0)))
}

/// Returns what a person has to do, as far as it is known.
fn to_do(status: &NodeEvacuationStatus) -> Option<String> {
    match status.verdict.unwrap_or_default() {
        DrainVerdict::Stuck => {
            let stuck: Vec<&DrainBlocker> = status.blockers.iter().filter(|blocker| blocker.stuck).collect();
            let (dead, others): (Vec<_>, Vec<_>) =
                stuck.into_iter().partition(|blocker| dead_node(&[blocker]).is_some());
            let (nodes, pods): (Vec<_>, Vec<_>) =
                others.into_iter().partition(|blocker| blocker.pod.is_none());
            let verb = if pods.len() == 1 { "needs" } else { "need" };
            let more = if dead.is_empty() { "pod" } else { "more pod" };
            let pods = (!pods.is_empty() || (dead.is_empty() && nodes.is_empty()))
                .then(|| format!("{} {verb} a change, named below", count(pods.len(), more)));
            let nodes =
                nodes.iter().map(|blocker| format!("Node {} needs a change, named below", blocker.node));
            let sentences: Vec<String> = dead_nodes(&dead).into_iter().chain(nodes).chain(pods).collect();
            Some(sentences.join(". "))
        }
        // A drain that no controller has seen has no message either.
        DrainVerdict::Waiting if status.message.is_none() => None,
        DrainVerdict::Waiting | DrainVerdict::Draining | DrainVerdict::Slow => {
            status.blockers.iter().all(needs_nothing).then(|| "Nothing to do".to_owned())
        }
        DrainVerdict::Drained | DrainVerdict::Failed | DrainVerdict::Canceled => None,
    }
}

/// Names the nodes that do not report, and counts their pods.
fn dead_nodes(dead: &[&DrainBlocker]) -> Option<String> {
    let nodes: BTreeSet<&str> = dead.iter().map(|blocker| blocker.node.as_str()).collect();
    let names = nodes.iter().copied().collect::<Vec<_>>().join(", ");
    let pods = count(dead.len(), "pod");
    match nodes.len() {
        0 => None,
        1 => Some(format!("Node {names} does not report and keeps {pods}")),
        _ => Some(format!("Nodes {names} do not report and keep {pods}")),
    }
}

fn is_stuck(status: &NodeEvacuationStatus, pod: &str) -> bool {
    let of_pod = |blocker: &&DrainBlocker| blocker.pod.as_deref() == Some(pod);
    status.blockers.iter().filter(of_pod).any(|blocker| blocker.stuck)
}

#[cfg(test)]
mod tests {
    use evacuation_api::Evacuation;
    use serde_json::{Value, json};

    use super::*;

    fn now() -> Now {
        Now { time: "2026-11-20T22:05:00Z".parse().unwrap(), led: true }
    }

    fn drain(status: &Value) -> NodeEvacuation {
        serde_json::from_value(json!({
            "metadata": {"name": "d"}, "spec": {"nodes": {"names": ["a"]}}, "status": status,
        }))
        .unwrap()
    }

    fn running(verdict: &str, blockers: &Value) -> Value {
        json!({"verdict": verdict, "message": "m", "pods": {"total": 6, "gone": 5}, "blockers": blockers,
               "nodes": [{"name": "a", "phase": "Draining", "pods": {"total": 6, "gone": 5}}]})
    }

    fn blocker(pod: &str, stuck: bool, way_out: &str) -> Value {
        json!({"node": "a", "pod": pod, "reason": "Delayed", "since": "2026-11-20T22:00:00Z", "stuck": stuck,
               "message": format!("so it is; what helps: {way_out}")})
    }

    fn pod(name: &str, answer: &Value, deadline: &Value) -> Tracked {
        let mut responder = json!({
            "name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 600, "state": "Active",
            "activeTime": "2026-11-20T22:04:30Z",
        });
        for (key, value) in answer.as_object().unwrap() {
            responder[key] = value.clone();
        }
        let evacuation: Evacuation = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ops", "uid": name},
            "spec": {"target": {"pod": {"name": name}}, "requesters": [{"name": "a.b/c", "owner": "alice"}]},
            "status": {"responders": [responder], "policy": {"onRefusal": "Wait", "deadlines": deadline}},
        }))
        .unwrap();
        Tracked::of(&evacuation)
    }

    fn said(drain: &NodeEvacuation, pods: &[&Tracked], now: Now) -> String {
        Statement::of(drain, pods, now).text
    }

    #[test]
    fn a_running_drain_says_what_comes_next_and_that_nothing_is_to_be_done() {
        let delay =
            json!({"answer": "Delay", "message": "39 s of work left", "delayUntil": "2026-11-20T22:05:04Z"});
        let slow = pod("slow5", &delay, &json!([]));
        let nothing = json!([blocker("ops/slow5", false, "nothing is needed, because the delay ends")]);
        let running_drain = drain(&running("Slow", &nothing));
        let statement = Statement::of(&running_drain, &[&slow], now());
        assert_eq!(
            statement.text,
            "Slow, 5/6 gone. Next: 22:05:04Z (in 4 s), ops/slow5 \"39 s of work left\". Nothing to do."
        );
        assert_eq!(statement.pod.as_deref(), Some("ops/slow5"));
        let silent = pod("web", &json!({}), &json!([]));
        assert_eq!(
            said(&running_drain, &[&silent], now()),
            "Slow, 5/6 gone. Next: 22:05:30Z (in 30 s), ops/web has not answered. Nothing to do."
        );
        let deadline = json!([{"owner": "alice", "requester": "a.b/c", "time": "2026-11-20T22:05:30Z", "action": "GiveUp", "reached": false}]);
        let refusing = pod("db", &json!({"answer": "Refuse"}), &deadline);
        let both = Statement::of(&running_drain, &[&silent, &refusing], now());
        assert_eq!(
            both.text,
            "Slow, 5/6 gone. Next: 22:05:30Z (in 30 s), ops/db is left alone at its deadline and 1 more. \
             Nothing to do."
        );
        assert_eq!(both.pod, None);
    }

    #[test]
    fn a_stuck_drain_counts_the_pods_that_need_a_change() {
        let held = json!([blocker("ops/db", true, "repair it"), blocker("ops/web", true, "repair it")]);
        let stuck = drain(&running("Stuck", &held));
        assert_eq!(said(&stuck, &[], now()), "Stuck, 5/6 gone. 2 pods need a change, named below.");
        let refusing = pod("db", &json!({"answer": "Refuse"}), &json!([]));
        assert_eq!(Statement::of(&stuck, &[&refusing], now()).pod, None, "its line says what helps");
        let slow = drain(&running("Slow", &json!([blocker("ops/db", false, "look at the log")])));
        assert_eq!(said(&slow, &[], now()), "Slow, 5/6 gone.", "there is something to do");
    }

    #[test]
    fn a_node_that_needs_a_change_is_no_pod() {
        let mut node = blocker("", true, "give the controller the right");
        node["pod"] = json!(null);
        let stuck = drain(&running("Stuck", &json!([node, blocker("ops/db", true, "repair it")])));
        let expected =
            "Stuck, 5/6 gone. Node a needs a change, named below. 1 pod needs a change, named below.";
        assert_eq!(said(&stuck, &[], now()), expected);
    }

    #[test]
    fn a_reply_that_does_not_count_is_told_at_once() {
        let slow = drain(&running("Slow", &json!([blocker("ops/web", false, "nothing is needed")])));
        let wrong = pod("web", &json!({"message": "its reply does not count: 500"}), &json!([]));
        assert_eq!(
            said(&slow, &[&wrong], now()),
            "Slow, 5/6 gone. Next: 22:05:30Z (in 30 s), ops/web has not answered: its reply does not count: 500. \
             Nothing to do."
        );
    }

    #[test]
    fn a_dead_node_comes_first_with_the_number_of_its_pods() {
        let dead = |node: &str, pod| {
            let mut blocker = blocker(pod, true, "repair it");
            blocker["reason"] = json!("NodeUnreachable");
            blocker["node"] = json!(node);
            blocker
        };
        for (blockers, expected) in [
            (json!([dead("a", "x")]), "Node a does not report and keeps 1 pod."),
            (
                json!([blocker("db", true, "x"), dead("a", "x"), dead("a", "y")]),
                "Node a does not report and keeps 2 pods. 1 more pod needs a change, named below.",
            ),
            (json!([dead("b", "x"), dead("a", "y")]), "Nodes a, b do not report and keep 2 pods."),
        ] {
            let stuck = drain(&running("Stuck", &blockers));
            assert_eq!(said(&stuck, &[], now()), format!("Stuck, 5/6 gone. {expected}"));
        }
    }

    #[test]
    fn while_no_controller_works_nothing_is_promised() {
        let silent = pod("web", &json!({}), &json!([]));
        let mut status = running("Draining", &json!([]));
        status["expectedCompletion"] = json!("2026-11-20T22:06:00Z");
        let drain = drain(&status);
        assert_eq!(
            said(&drain, &[], now()),
            "Draining, 5/6 gone. Expected end: 22:06:00Z (in 60 s). Nothing to do."
        );
        let text = said(&drain, &[&silent], Now { led: false, ..now() });
        assert_eq!(text, "Draining, 5/6 gone. It waits for a controller.");
    }

    #[test]
    fn waits_pauses_and_ends_are_named() {
        let mut waiting = drain(
            &json!({"verdict": "Waiting", "message": "it waits for its window", "startTime": "2026-11-20T23:05:00Z"}),
        );
        assert_eq!(
            said(&waiting, &[], now()),
            "Waiting, 0/0 gone. Next: 23:05:00Z (in 60 min), its window opens. Nothing to do."
        );
        waiting.spec.paused = true;
        let paused = said(&waiting, &[], now());
        assert_eq!(paused, "Waiting (paused), 0/0 gone. What helps: kubectl evacuate resume d");
        waiting.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-20T22:00:00Z")).unwrap();
        assert_eq!(
            said(&waiting, &[], now()),
            "Canceled, 0/0 gone. Its requests are being taken back, and its nodes released."
        );
        let mut ended = running("Drained", &json!([]));
        ended["finishTime"] = json!("2026-11-20T21:47:00Z");
        ended["conditions"] = json!([
            {"type": "Finished", "status": "True", "reason": "NodesLeft", "message": "",
             "lastTransitionTime": "2026-11-20T21:47:00Z"},
            {"type": "Failed", "status": "True", "reason": "NodesLeft", "message": "",
             "lastTransitionTime": "2026-11-20T21:47:00Z"},
        ]);
        assert_eq!(said(&drain(&ended), &[], now()), "Failed, 5/6 gone, since 21:47:00Z (18 min).");
        assert_eq!(said(&drain(&json!({})), &[], now()), "Waiting, 0/0 gone.");
    }
}
