//! The blockers of a drain, with their ways out.

use std::collections::BTreeSet;

use evacuation_api::{DrainBlocker, DrainConditionType, NodeEvacuationStatus};
use evacuation_protocol::message_parts;

use super::canvas::{Canvas, Colour};
use crate::{
    blockers::{dead_node, groups},
    moment::Now,
    plain::{help, plain},
    tracked::Tracked,
};

/// Maximum number of pods that one blocker names.
const NAMED: usize = 3;

/// The blockers as lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) lines: Vec<String>,
    /// The pods that the lines are about.
    pub(super) pods: BTreeSet<String>,
}

/// Returns the blockers in their order, the stuck ones first, as far as `room` lines go. Pods that the same
/// cause holds share one blocker. A pod that is known has a line of its own, unless it is stuck.
pub(super) fn lines(
    name: &str,
    status: &NodeEvacuationStatus,
    pods: &[&Tracked],
    canvas: &Canvas,
    room: usize,
    now: Now,
) -> Lines {
    let has_line = |blocker: &DrainBlocker| pods.iter().any(|pod| Some(&pod.pod) == blocker.pod.as_ref());
    let told: Vec<&DrainBlocker> =
        status.blockers.iter().filter(|blocker| blocker.stuck || !has_line(blocker)).collect();
    let mut found = Lines::default();
    let mut shown = 0_usize;
    for group in groups(told.iter().copied()) {
        let block = block(&group, canvas, now);
        // Two lines are for the head and for the number of the others.
        if found.lines.len().saturating_add(block.len()).saturating_add(2) > room {
            break;
        }
        found.lines.extend(block);
        found.pods.extend(group.iter().filter_map(|blocker| blocker.pod.clone()));
        shown = shown.saturating_add(group.len());
    }
    let omitted = usize::try_from(status.blockers_omitted).unwrap_or_default();
    let more = told.len().saturating_add(omitted).saturating_sub(shown);
    if more > 0 && room > 0 {
        let others = if shown > 0 { "more " } else { "" };
        let hint = format!("  {more} {others}held back: see kubectl evacuate status --watch=false {name}");
        found.lines.push(canvas.cut(&hint));
    }
    if !found.lines.is_empty() {
        let ended = status.is_true(DrainConditionType::Finished);
        found.lines.insert(0, if ended { "was held back by" } else { "held back by" }.to_owned());
    }
    found
}

fn block(group: &[&DrainBlocker], canvas: &Canvas, now: Now) -> Vec<String> {
    let Some(first) = group.first() else { return Vec::new() };
    let (cause, _) = message_parts(&first.message);
    let mut places: Vec<&str> = group
        .iter()
        .take(NAMED)
        .map(|blocker| blocker.pod.as_ref().unwrap_or(&blocker.node).as_str())
        .collect();
    places.sort_unstable();
    let more = match group.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let owner = first.owner.as_ref().filter(|owner| group.iter().all(|it| it.owner.as_ref() == Some(*owner)));
    let owner = owner.map(|owner| format!(" of {owner}")).unwrap_or_default();
    let node = dead_node(group).map(|node| format!("node/{node} with ")).unwrap_or_default();
    let text = plain(&format!("{} {node}{}{more}{owner}: {cause}", first.reason, places.join(", ")));
    let text = now.text(&text);
    let colour = if first.stuck { Colour::Red } else { Colour::Yellow };
    let mut lines: Vec<String> =
        canvas.wrap(&text, "  ").iter().map(|line| canvas.paint(colour, line)).collect();
    if let Some(help) = help(&first.message, now) {
        lines.extend(canvas.wrap(&plain(&format!("what helps: {}", now.text(help))), "    "));
    }
    lines
}
