//! A line with a bar for each node.

use evacuation_api::{DrainConditionType, DrainedNode, DrainedNodePhase, NodeEvacuationStatus};
use evacuation_protocol::message_parts;

use super::canvas::{Canvas, Colour};
use crate::{moment::count, plain::plain, summary::gone_on, tracked::Tracked};

/// Maximum number of columns of a bar.
const BAR: usize = 30;
/// Maximum number of columns of a node's name.
const NAME: usize = 40;

/// Returns a line for each node, at most `room` in all. Nodes in progress come first when not all fit.
///
/// The message of a drain that has ended follows the drawing. A node does not repeat it.
pub(super) fn nodes(
    status: &NodeEvacuationStatus,
    pods: &[&Tracked],
    canvas: &Canvas,
    room: usize,
) -> Vec<String> {
    let nodes = &status.nodes;
    let end = status.message.as_deref().filter(|_| status.is_true(DrainConditionType::Finished));
    let mut shown: Vec<&DrainedNode> = nodes.iter().collect();
    if nodes.len() > room {
        shown.sort_by_key(|node| match node.phase {
            DrainedNodePhase::Draining => 0,
            DrainedNodePhase::Pending => 2,
            DrainedNodePhase::Drained | DrainedNodePhase::Gone => 3,
            DrainedNodePhase::Withdrawn | DrainedNodePhase::Failed => 1,
        });
        shown.truncate(room.saturating_sub(1));
    }
    let omitted = nodes.len().saturating_sub(shown.len());
    let name = shown.iter().map(|node| node.name.chars().count()).max().unwrap_or_default().min(NAME);
    let number = |node: &DrainedNode| format!("{}/{}", gone_on(node, pods), node.pods.total);
    let numbers = shown.iter().map(|node| number(node).len()).max().unwrap_or_default();
    let mut lines: Vec<String> = shown
        .iter()
        .map(|node| {
            let of = |count: i32| usize::try_from(count).unwrap_or_default();
            let done = matches!(node.phase, DrainedNodePhase::Drained | DrainedNodePhase::Gone);
            let bar = match node.pods.total {
                // An empty node has nothing to wait for.
                0 => bar(usize::from(done), 1, canvas),
                total => bar(gone_on(node, pods), of(total), canvas),
            };
            let label = Canvas { width: NAME, ..*canvas }.cut(&node.name);
            canvas.cut(&format!(
                "{label:<name$}  {bar}  {:<numbers$}  {}",
                number(node),
                word(node, end, canvas)
            ))
        })
        .collect();
    if omitted > 0 {
        lines.push(canvas.paint(Colour::Faint, &format!("and {}", count(omitted, "more node"))));
    }
    lines
}

/// Returns the state of a node in a word, and the reason when it was not drained, unless `end` has it.
fn word(node: &DrainedNode, end: Option<&str>, canvas: &Canvas) -> String {
    let message = node.message.as_deref().unwrap_or_default();
    let is_told = end.is_some_and(|end| end.contains(message_parts(message).0));
    let reason = if is_told || message.is_empty() { String::new() } else { format!(" {}", plain(message)) };
    match node.phase {
        DrainedNodePhase::Pending => canvas.paint(Colour::Faint, "Pending"),
        DrainedNodePhase::Draining => canvas.paint(Colour::of(node.verdict), &format!("{:?}", node.verdict)),
        DrainedNodePhase::Drained if node.pods.skipped > 0 => {
            format!("{}, {} skipped", canvas.paint(Colour::Green, "Drained"), node.pods.skipped)
        }
        DrainedNodePhase::Drained => canvas.paint(Colour::Green, "Drained"),
        DrainedNodePhase::Gone => format!("{}{reason}", canvas.paint(Colour::Green, "Gone")),
        DrainedNodePhase::Withdrawn | DrainedNodePhase::Failed => {
            format!("{}{reason}", canvas.paint(Colour::Red, &format!("{:?}", node.phase)))
        }
    }
}

/// Returns a bar. Without colours it is `[#####.....]`.
pub(super) fn bar(done: usize, total: usize, canvas: &Canvas) -> String {
    let width = BAR.min(canvas.width / 3);
    let full = done.saturating_mul(width).checked_div(total).unwrap_or(width).min(width);
    let (full, rest) = (full, width - full);
    if !canvas.colours {
        return format!("[{}{}]", "#".repeat(full), ".".repeat(rest));
    }
    let colour = if rest == 0 { Colour::Green } else { Colour::Yellow };
    format!("{}{}", canvas.paint(colour, &"━".repeat(full)), canvas.paint(Colour::Faint, &"━".repeat(rest)))
}
