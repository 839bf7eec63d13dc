//! A drain as the lines of a terminal: a bar for each node, the pods that are not gone, the blockers with
//! their ways out, and the expected end.
//!
//! Pure: objects, the size of the terminal and the time in; lines out. A line never has more columns than
//! the terminal, and all lines together fit its height. Texts of others have no control characters.

mod blockers;
mod canvas;
mod nodes;
mod pods;

use evacuation_api::{DrainConditionType, DrainVerdict, NodeEvacuation, NodeEvacuationStatus};
use kube::ResourceExt;

pub(crate) use self::canvas::Canvas;
use self::{canvas::Colour, nodes::nodes};
use crate::{
    moment::{Now, WAITS, count, span},
    plain::plain,
    summary::summary,
    tracked::Tracked,
    verdict::verdict,
};

/// Draws one drain with the pods that it has asked.
pub(crate) fn drain(drain: &NodeEvacuation, pods: &[&Tracked], canvas: &Canvas, now: Now) -> Vec<String> {
    let empty = NodeEvacuationStatus::default();
    let status = drain.status.as_ref().unwrap_or(&empty);
    let mut lines = vec![head(drain, status, pods, canvas, now)];
    let foot = foot(drain, status, now);
    // A terminal that is very low still shows the head and the nodes.
    let room = canvas.height.saturating_sub(2);
    lines.extend(nodes(status, pods, canvas, (room / 3).max(3)));
    let room = room.saturating_sub(lines.len());
    let blockers = blockers::lines(&drain.name_any(), status, pods, canvas, room.saturating_mul(2) / 3, now);
    let others: Vec<_> = pods.iter().copied().filter(|pod| !blockers.pods.contains(&pod.pod)).collect();
    lines.extend(pods::lines(&others, canvas, now, room.saturating_sub(blockers.lines.len())));
    lines.extend(blockers.lines);
    lines.extend(foot.map(|foot| canvas.paint(Colour::Faint, &canvas.cut(&foot))));
    lines
}

/// Draws Evacuations without a drain, as `kubectl create evacuation --wait` follows them.
pub(crate) fn evacuations(pods: &[&Tracked], canvas: &Canvas, now: Now) -> Vec<String> {
    let ended = pods.iter().filter(|pod| pod.end.is_some()).count();
    let bar = nodes::bar(ended, pods.len(), canvas);
    let mut lines = vec![format!("{bar} {ended}/{} ended", count(pods.len(), "pod"))];
    lines.extend(pods::lines(pods, canvas, now, canvas.height.saturating_sub(2)));
    lines
}

fn head(
    drain: &NodeEvacuation,
    status: &NodeEvacuationStatus,
    pods: &[&Tracked],
    canvas: &Canvas,
    now: Now,
) -> String {
    let word = verdict(drain);
    let mut text = summary(status, pods);
    let waits = status.nodes.is_empty() && status.verdict.unwrap_or_default() == DrainVerdict::Waiting;
    if let Some(message) = status.message.as_ref().filter(|_| waits) {
        text = format!("{text}; {}", plain(&now.text(message)));
    }
    let name = drain.name_any();
    let used = name.chars().count() + word.chars().count() + 4;
    let rest = Canvas { width: canvas.width.saturating_sub(used), ..*canvas }.cut(&text);
    let colour = Colour::of(drain.verdict());
    canvas.cut(&format!("{}  {}  {rest}", canvas.paint(Colour::Bold, &name), canvas.paint(colour, &word)))
}

/// Returns the expected end and the time since the start.
fn foot(drain: &NodeEvacuation, status: &NodeEvacuationStatus, now: Now) -> Option<String> {
    if status.is_true(DrainConditionType::Finished) {
        return None;
    }
    let mut parts = Vec::new();
    let begun = !status.nodes.is_empty();
    let held = matches!(status.verdict, Some(DrainVerdict::Slow | DrainVerdict::Stuck));
    match (&status.expected_completion, &status.start_time) {
        _ if !now.led => parts.push(WAITS.to_owned()),
        (Some(end), _) => parts.push(format!("expected end {}", now.at(end.0))),
        (None, Some(start)) if !begun && now.time < start.0 => {
            parts.push(format!("begins {}", now.at(start.0)));
        }
        (None, _) if held => parts.push("the end is not known".to_owned()),
        (None, _) => {}
    }
    if let Some(start) = status.start_time.filter(|start| begun && start.0 <= now.time) {
        parts.push(format!("running for {}", span(now.time - start.0)));
    }
    if drain.spec.paused && now.led {
        parts.push(format!("what helps: kubectl evacuate resume {}", drain.name_any()));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests;
