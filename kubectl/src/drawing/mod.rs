//! A drain as the lines of a terminal: a bar for each node, the pods that are not gone, the blockers with
//! their ways out, and the expected end.
//!
//! Pure: objects, the size of the terminal and the time in; lines out. A line never has more columns than
//! the terminal, and all lines together fit its height. Texts of others have no control characters.

mod blockers;
mod canvas;
mod nodes;
mod pods;

use chrono::{DateTime, SecondsFormat, Utc};
use evacuation_api::{DrainConditionType, DrainVerdict, NodeEvacuation, NodeEvacuationStatus};
use kube::ResourceExt;

pub(crate) use self::canvas::Canvas;
use self::{canvas::Colour, nodes::nodes};
use crate::{
    plain::{plain, short},
    summary::summary,
    tracked::Tracked,
    verdict::verdict,
};

/// Draws one drain with the pods that it has asked.
pub(crate) fn drain(
    drain: &NodeEvacuation,
    pods: &[&Tracked],
    canvas: &Canvas,
    now: DateTime<Utc>,
) -> Vec<String> {
    let empty = NodeEvacuationStatus::default();
    let status = drain.status.as_ref().unwrap_or(&empty);
    let mut lines = vec![head(drain, status, pods, canvas)];
    let foot = foot(drain, status, now);
    // A terminal that is very low still shows the head and the nodes.
    let room = canvas.height.saturating_sub(2);
    lines.extend(nodes(&status.nodes, canvas, (room / 3).max(3)));
    let room = room.saturating_sub(lines.len());
    let blockers = blockers::lines(&drain.name_any(), status, canvas, room.saturating_mul(2) / 3);
    lines.extend(pods::lines(pods, canvas, now, room.saturating_sub(blockers.len())));
    lines.extend(blockers);
    lines.extend(foot.map(|foot| canvas.paint(Colour::Faint, &canvas.cut(&foot))));
    lines
}

/// Draws Evacuations without a drain, as `kubectl create evacuation --wait` follows them.
pub(crate) fn evacuations(pods: &[&Tracked], canvas: &Canvas, now: DateTime<Utc>) -> Vec<String> {
    let ended = pods.iter().filter(|pod| pod.end.is_some()).count();
    let bar = nodes::bar(ended, pods.len(), canvas);
    let mut lines = vec![format!("{bar} {ended}/{} pods ended", pods.len())];
    lines.extend(pods::lines(pods, canvas, now, canvas.height.saturating_sub(2)));
    lines
}

fn head(drain: &NodeEvacuation, status: &NodeEvacuationStatus, pods: &[&Tracked], canvas: &Canvas) -> String {
    let word = verdict(drain, status);
    let mut text = summary(&status.pods, pods.iter().copied());
    let waits = status.nodes.is_empty() && status.verdict.unwrap_or_default() == DrainVerdict::Waiting;
    if let Some(message) = status.message.as_ref().filter(|_| waits) {
        text = format!("{text}; {}", plain(message));
    }
    let name = drain.name_any();
    let used = name.chars().count() + word.chars().count() + 4;
    let rest = Canvas { width: canvas.width.saturating_sub(used), ..*canvas }.cut(&text);
    let colour = if status.is_true(DrainConditionType::Failed) {
        Colour::Red
    } else {
        Colour::of(status.verdict.unwrap_or_default())
    };
    canvas.cut(&format!("{}  {}  {rest}", canvas.paint(Colour::Bold, &name), canvas.paint(colour, &word)))
}

/// Returns the expected end and the time since the start.
fn foot(drain: &NodeEvacuation, status: &NodeEvacuationStatus, now: DateTime<Utc>) -> Option<String> {
    if status.is_true(DrainConditionType::Finished) {
        return None;
    }
    let mut parts = Vec::new();
    let begun = !status.nodes.is_empty();
    let held = matches!(status.verdict, Some(DrainVerdict::Slow | DrainVerdict::Stuck));
    match (&status.expected_completion, &status.start_time) {
        (Some(end), _) => parts.push(format!("expected end {}", moment(end.0, now))),
        (None, Some(start)) if !begun && now < start.0 => {
            parts.push(format!("begins {}", moment(start.0, now)));
        }
        (None, _) if held => parts.push("the end is not known".to_owned()),
        (None, _) => {}
    }
    if let Some(start) = status.start_time.filter(|start| begun && start.0 <= now) {
        parts.push(format!("running for {}", short(now - start.0)));
    }
    if drain.spec.paused {
        parts.push(format!("to continue: kubectl evacuate resume {}", drain.name_any()));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns a time of day, or a date when it is more than a day away, and how far away it is.
fn moment(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let rest = time - now;
    let stamp = if rest.num_hours().abs() < 24 {
        time.format("%H:%M:%SZ").to_string()
    } else {
        time.to_rfc3339_opts(SecondsFormat::Secs, true)
    };
    // Sub-seconds are rounded up: 0s would mean that it is over.
    let rest = rest + chrono::TimeDelta::milliseconds(999);
    if rest.num_seconds() > 0 { format!("{stamp} (in {})", short(rest)) } else { stamp }
}

#[cfg(test)]
mod tests;
