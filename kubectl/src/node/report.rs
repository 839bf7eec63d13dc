//! The changes of a drain as lines for people. Pure: objects in, lines out.

use std::collections::BTreeSet;

use evacuation_api::{
    CordonOwner, DrainBlocker, DrainConditionType, DrainVerdict, DrainedNode, DrainedNodePhase,
    NodeEvacuation, NodeEvacuationStatus,
};
use evacuation_protocol::message_parts;
use kube::ResourceExt;

use crate::{
    Exit,
    blockers::blocker_lines,
    moment::{Now, count},
    plain::{needs_nothing, plain},
};

/// The state of a drain that was told.
#[derive(Default)]
pub(super) struct Report {
    /// Names of the nodes that were cordoned before the drain.
    cordoned_before: BTreeSet<String>,
    /// True when the verdict and the blockers are drawn, so that they need no lines.
    drawn: bool,
    told: NodeEvacuationStatus,
    verdict: DrainVerdict,
    blockers: BTreeSet<[String; 4]>,
    deleted: bool,
}

impl Report {
    pub(super) fn new(cordoned_before: BTreeSet<String>, drawn: bool) -> Self {
        Self { cordoned_before, drawn, ..Self::default() }
    }

    /// Takes the drain in. Returns a line for each visible change.
    pub(super) fn lines(&mut self, drain: &NodeEvacuation, now: Now) -> Vec<String> {
        let name = drain.name_any();
        let mut lines = Vec::new();
        if drain.metadata.deletion_timestamp.is_some() {
            if !std::mem::replace(&mut self.deleted, true) {
                lines.push(format!("nodeevacuation {name} is being canceled"));
            }
            return lines;
        }
        let status = drain.status.clone().unwrap_or_default();
        for node in &status.nodes {
            let before = self.told.nodes.iter().find(|known| known.name == node.name);
            lines.extend(self.cordon(node, before));
            // The end of the drain tells the reason once more.
            let ending = status.message.as_deref().filter(|_| status.is_true(DrainConditionType::Finished));
            lines.extend(phase(node, before, ending.unwrap_or_default(), now));
        }
        let opens = status.start_time.filter(|time| self.told.start_time != Some(*time));
        if let Some(time) = opens.filter(|_| drain.spec.requester.window.is_some() && status.nodes.is_empty())
        {
            let time = now.stamp(&time);
            lines.push(format!("nodeevacuation {name} waits for its window, which opens at {time}"));
        }
        let finished = status.is_true(DrainConditionType::Finished);
        let verdict = status.verdict.unwrap_or_default();
        let held = matches!(verdict, DrainVerdict::Slow | DrainVerdict::Stuck);
        let was_held = matches!(self.verdict, DrainVerdict::Slow | DrainVerdict::Stuck);
        let told = finished || self.drawn;
        if verdict != self.verdict && (held || was_held) && !told {
            let numbers = format!("{verdict:?}, {}/{} gone", status.pods.gone, status.pods.total);
            // The message of a drain that is held back tells of its blockers.
            let message = status.message.as_deref().filter(|_| status.blockers.is_empty() && held);
            let message = message.map(|message| format!(": {}", now.text(message))).unwrap_or_default();
            lines.push(plain(&format!("nodeevacuation {name}: {numbers}{message}")));
        }
        if held && !told {
            let new = status.blockers.iter().filter(|b| !self.blockers.contains(&key(b)) && !has_line(b));
            lines.extend(blocker_lines(new, false, now));
            self.blockers = status.blockers.iter().map(key).collect();
        }
        self.verdict = verdict;
        self.told = status;
        lines
    }

    fn cordon(&self, node: &DrainedNode, before: Option<&DrainedNode>) -> Option<String> {
        let told = before.is_some_and(|before| before.cordoned != CordonOwner::No);
        let already = self.cordoned_before.contains(&node.name);
        let word = if already { "already cordoned" } else { "cordoned" };
        (node.cordoned != CordonOwner::No && !told).then(|| format!("node/{} {word}", node.name))
    }
}

/// Returns true for a blocker that the line of its pod has told: it waits for an answer, or for the end of a
/// delay.
fn has_line(blocker: &DrainBlocker) -> bool {
    needs_nothing(blocker) && ["Delayed", "Unanswered"].contains(&blocker.reason.as_str())
}

/// Returns the key of a blocker. Its message can change with each look.
fn key(blocker: &DrainBlocker) -> [String; 4] {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    [blocker.node.clone(), text(&blocker.pod), blocker.reason.clone(), text(&blocker.object)]
}

/// Returns the line of a node that has come to its end. `ending` is a text that is shown below it.
fn phase(node: &DrainedNode, before: Option<&DrainedNode>, ending: &str, now: Now) -> Option<String> {
    if before.is_some_and(|before| before.phase == node.phase) {
        return None;
    }
    let (name, message) = (&node.name, node.message.as_deref().unwrap_or_default());
    match node.phase {
        DrainedNodePhase::Pending | DrainedNodePhase::Draining => None,
        DrainedNodePhase::Drained if node.pods.skipped > 0 => {
            let skipped = usize::try_from(node.pods.skipped).unwrap_or_default();
            Some(format!("node/{name} evacuated, {} skipped", count(skipped, "pod")))
        }
        DrainedNodePhase::Drained => Some(format!("node/{name} evacuated")),
        DrainedNodePhase::Gone => Some(plain(&format!("node/{name} is gone: {message}"))),
        DrainedNodePhase::Withdrawn | DrainedNodePhase::Failed
            if ending.contains(message_parts(message).0) =>
        {
            Some(format!("node/{name} not evacuated"))
        }
        DrainedNodePhase::Withdrawn | DrainedNodePhase::Failed => {
            Some(plain(&format!("node/{name} not evacuated: {}", now.text(message))))
        }
    }
}

/// Returns the exit and the message of a drain that has ended.
pub(super) fn end(status: &NodeEvacuationStatus, now: Now) -> Option<(Exit, String)> {
    if !status.is_true(DrainConditionType::Finished) {
        return None;
    }
    let exit = if status.is_true(DrainConditionType::Failed) { Exit::Refused } else { Exit::Done };
    Some((exit, plain(&now.text(status.message.as_deref().unwrap_or_default()))))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn now() -> Now {
        Now { time: "2026-11-20T21:00:00Z".parse().unwrap(), led: true }
    }

    fn drain(status: &Value) -> NodeEvacuation {
        serde_json::from_value(json!({
            "metadata": {"name": "d"}, "spec": {"nodes": {"names": ["a"]}}, "status": status,
        }))
        .unwrap()
    }

    fn node(phase: &str, cordoned: &str) -> Value {
        json!([{"name": "a", "phase": phase, "cordoned": cordoned, "message": "db-0 refused"}])
    }

    #[test]
    fn each_change_of_a_node_is_told_once() {
        for (before, cordon) in [(None, "node/a cordoned"), (Some("a"), "node/a already cordoned")] {
            let mut report = Report::new(before.into_iter().map(str::to_owned).collect(), false);
            let mut told = Vec::new();
            for nodes in [
                node("Pending", "No"),
                node("Draining", "No"),
                node("Draining", "Ours"),
                node("Draining", "Ours"),
                node("Drained", "Ours"),
                node("Drained", "Ours"),
            ] {
                told.extend(report.lines(&drain(&json!({"nodes": nodes})), now()));
            }
            assert_eq!(told, [cordon, "node/a evacuated"]);
        }
    }

    #[test]
    fn a_node_on_which_pods_were_skipped_says_so() {
        for (skipped, expected) in [
            (0, "node/a evacuated"),
            (1, "node/a evacuated, 1 pod skipped"),
            (2, "node/a evacuated, 2 pods skipped"),
        ] {
            let mut nodes = node("Drained", "No");
            nodes[0]["pods"] = json!({"total": 3, "gone": 3 - skipped, "skipped": skipped});
            let told = Report::default().lines(&drain(&json!({"nodes": nodes})), now());
            assert_eq!(told, [expected]);
        }
    }

    #[test]
    fn the_reason_of_the_end_is_told_once() {
        let finished = json!([{"type": "Finished", "status": "True", "reason": "Uncordoned", "message": "",
                               "lastTransitionTime": "2026-11-20T22:00:00Z"}]);
        let mut status = json!({"nodes": node("Withdrawn", "No"), "message": "m"});
        status["nodes"][0]["message"] = json!("db-0 refused; what helps: x");
        let told = |status: &Value| Report::default().lines(&drain(status), now());
        assert_eq!(told(&status), ["node/a not evacuated: db-0 refused; what helps: x"]);
        status["conditions"] = finished;
        status["message"] = json!("not drained: a: db-0 refused; 0 pods are gone; what helps: x");
        assert_eq!(told(&status), ["node/a not evacuated"]);
    }

    #[test]
    fn a_drain_with_a_window_says_once_when_it_opens() {
        let mut report = Report::default();
        let mut waiting = drain(&json!({"startTime": "2026-11-20T22:00:00Z"}));
        waiting.spec.requester.window =
            serde_json::from_value(json!({"schedule": "0 22 * * *", "durationSeconds": 3600})).unwrap();
        let told = report.lines(&waiting, now());
        assert_eq!(told, ["nodeevacuation d waits for its window, which opens at 22:00:00Z (in 60 min)"]);
        assert_eq!(report.lines(&waiting, now()), [] as [&str; 0]);
    }

    #[test]
    fn a_drain_that_is_held_names_each_blocker_once() {
        let blocker = |pod: &str| {
            json!({"node": "a", "pod": pod, "reason": "Refused", "since": "2026-11-20T20:00:00Z", "stuck": true,
                   "owner": "StatefulSet/db", "message": "responder self refused\u{7}; what helps: ask it"})
        };
        let mut report = Report::default();
        let mut lines = |verdict: &str, blockers: Value| {
            let pods = json!({"total": 3, "gone": 2});
            let status = json!({"verdict": verdict, "message": "so", "blockers": blockers, "pods": pods});
            report.lines(&drain(&status), now())
        };
        assert_eq!(lines("Draining", json!([])), [] as [&str; 0]);
        assert_eq!(
            lines("Stuck", json!([blocker("shop/db-0")])),
            [
                "nodeevacuation d: Stuck, 2/3 gone",
                "  pod/shop/db-0 of StatefulSet/db: Refused since 20:00:00Z (60 min): responder self refused ",
                "    what helps: ask it"
            ]
        );
        assert_eq!(lines("Stuck", json!([blocker("shop/db-0")])), [] as [&str; 0]);
        assert_eq!(lines("Stuck", json!([blocker("shop/db-0"), blocker("shop/db-1")])).len(), 2);
        assert_eq!(lines("Draining", json!([])), ["nodeevacuation d: Draining, 2/3 gone"]);
        assert_eq!(lines("Slow", json!([])), ["nodeevacuation d: Slow, 2/3 gone: so"]);
        let mut delayed = blocker("shop/db-2");
        delayed["stuck"] = json!(false);
        delayed["reason"] = json!("Delayed");
        delayed["message"] = json!("it works; what helps: nothing is needed, because it ends");
        assert_eq!(lines("Slow", json!([delayed])), [] as [&str; 0], "the line of the pod has told it");
    }

    #[test]
    fn the_end_of_a_drain_decides_the_exit() {
        let status = |conditions: &[&str]| {
            let conditions: Vec<Value> = conditions
                .iter()
                .map(|kind| {
                    json!({"type": kind, "status": "True", "reason": "R", "message": "",
                           "lastTransitionTime": "2026-11-20T22:00:00Z"})
                })
                .collect();
            drain(&json!({"message": "gave up at 2026-11-20T20:00:00Z", "conditions": conditions}))
                .status
                .unwrap()
        };
        for (conditions, expected) in [
            (&["Drained", "Finished"][..], Some(Exit::Done)),
            (&["Failed", "Finished"], Some(Exit::Refused)),
            (&["Paused"], None),
        ] {
            let found = end(&status(conditions), now());
            let message = "gave up at 20:00:00Z (60 min ago)".to_owned();
            assert_eq!(found, expected.map(|exit| (exit, message)), "{conditions:?}");
        }
    }
}
