//! The changes of a drain as lines for people. Pure: objects in, lines out.

use std::collections::BTreeSet;

use chrono::SecondsFormat;
use evacuation_api::{
    CordonOwner, DrainBlocker, DrainConditionType, DrainVerdict, DrainedNode, DrainedNodePhase,
    NodeEvacuation, NodeEvacuationStatus,
};
use kube::ResourceExt;

use crate::{
    Exit,
    plain::{blocker, plain},
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
    pub(super) fn lines(&mut self, drain: &NodeEvacuation) -> Vec<String> {
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
            lines.extend(phase(node, before));
        }
        let opens = status.start_time.filter(|time| self.told.start_time != Some(*time));
        if let Some(time) = opens.filter(|_| drain.spec.requester.window.is_some() && status.nodes.is_empty())
        {
            let time = time.0.to_rfc3339_opts(SecondsFormat::Secs, true);
            lines.push(format!("nodeevacuation {name} waits for its window, which opens at {time}"));
        }
        let finished = status.is_true(DrainConditionType::Finished);
        let verdict = status.verdict.unwrap_or_default();
        let held = matches!(verdict, DrainVerdict::Slow | DrainVerdict::Stuck);
        let was_held = matches!(self.verdict, DrainVerdict::Slow | DrainVerdict::Stuck);
        let told = finished || self.drawn;
        if verdict != self.verdict && (held || was_held) && !told {
            let message = status.message.as_deref().unwrap_or_default();
            lines.push(plain(&format!("nodeevacuation {name}: {verdict:?}: {message}")));
        }
        if held && !told {
            let new = status.blockers.iter().filter(|b| !self.blockers.contains(&key(b)));
            lines.extend(new.map(|b| format!("  {}", blocker(b))));
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

/// Returns the key of a blocker. Its message can change with each look.
fn key(blocker: &DrainBlocker) -> [String; 4] {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    [blocker.node.clone(), text(&blocker.pod), blocker.reason.clone(), text(&blocker.object)]
}

fn phase(node: &DrainedNode, before: Option<&DrainedNode>) -> Option<String> {
    if before.is_some_and(|before| before.phase == node.phase) {
        return None;
    }
    let (name, message) = (&node.name, node.message.as_deref().unwrap_or_default());
    match node.phase {
        DrainedNodePhase::Pending | DrainedNodePhase::Draining => None,
        DrainedNodePhase::Drained => Some(format!("node/{name} evacuated")),
        DrainedNodePhase::Gone => Some(format!("node/{name} is gone")),
        DrainedNodePhase::Withdrawn | DrainedNodePhase::Failed => {
            Some(plain(&format!("node/{name} not evacuated: {message}")))
        }
    }
}

/// Returns the exit and the message of a drain that has ended.
pub(super) fn end(status: &NodeEvacuationStatus) -> Option<(Exit, String)> {
    if !status.is_true(DrainConditionType::Finished) {
        return None;
    }
    let exit = if status.is_true(DrainConditionType::Failed) { Exit::Refused } else { Exit::Done };
    Some((exit, plain(status.message.as_deref().unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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
                told.extend(report.lines(&drain(&json!({"nodes": nodes}))));
            }
            assert_eq!(told, [cordon, "node/a evacuated"]);
        }
    }

    #[test]
    fn a_drain_with_a_window_says_once_when_it_opens() {
        let mut report = Report::default();
        let mut waiting = drain(&json!({"startTime": "2026-11-20T22:00:00Z"}));
        waiting.spec.requester.window =
            serde_json::from_value(json!({"schedule": "0 22 * * *", "durationSeconds": 3600})).unwrap();
        let told = report.lines(&waiting);
        assert_eq!(told, ["nodeevacuation d waits for its window, which opens at 2026-11-20T22:00:00Z"]);
        assert_eq!(report.lines(&waiting), [] as [&str; 0]);
    }

    #[test]
    fn a_drain_that_is_held_names_each_blocker_once() {
        let blocker = |pod: &str| {
            json!({"node": "a", "pod": pod, "reason": "Refused", "since": "2026-11-20T22:00:00Z", "stuck": true,
                   "owner": "StatefulSet/db", "message": "responder self refused\u{7}"})
        };
        let mut report = Report::default();
        let mut lines = |verdict: &str, blockers: Value| {
            report.lines(&drain(&json!({"verdict": verdict, "message": "so", "blockers": blockers})))
        };
        assert_eq!(lines("Draining", json!([])), [] as [&str; 0]);
        assert_eq!(
            lines("Stuck", json!([blocker("shop/db-0")])),
            [
                "nodeevacuation d: Stuck: so",
                "  pod/shop/db-0 of StatefulSet/db: Refused: responder self refused "
            ]
        );
        assert_eq!(lines("Stuck", json!([blocker("shop/db-0")])), [] as [&str; 0]);
        assert_eq!(lines("Stuck", json!([blocker("shop/db-0"), blocker("shop/db-1")])).len(), 1);
        assert_eq!(lines("Draining", json!([])), ["nodeevacuation d: Draining: so"]);
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
            drain(&json!({"message": "m", "conditions": conditions})).status.unwrap()
        };
        for (conditions, expected) in [
            (&["Drained", "Finished"][..], Some(Exit::Done)),
            (&["Failed", "Finished"], Some(Exit::Refused)),
            (&["Paused"], None),
        ] {
            assert_eq!(end(&status(conditions)).map(|(exit, _)| exit), expected, "{conditions:?}");
        }
    }
}
