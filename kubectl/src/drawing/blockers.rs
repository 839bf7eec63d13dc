//! The blockers of a drain, with their ways out.

use evacuation_api::{DrainBlocker, NodeEvacuationStatus};

use super::canvas::{Canvas, Colour};
use crate::plain::{plain, way_out};

/// Maximum number of pods that one blocker names.
const NAMED: usize = 3;

/// Returns the blockers in their order, the stuck ones first, as far as `room` lines go. Pods that the same
/// cause holds share one blocker.
pub(super) fn lines(name: &str, status: &NodeEvacuationStatus, canvas: &Canvas, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut shown = 0_usize;
    for group in groups(&status.blockers) {
        let block = block(&group, canvas);
        // Two lines are for the head and for the number of the others.
        if lines.len().saturating_add(block.len()).saturating_add(2) > room {
            break;
        }
        lines.extend(block);
        shown = shown.saturating_add(group.len());
    }
    let omitted = usize::try_from(status.blockers_omitted).unwrap_or_default();
    let more = status.blockers.len().saturating_add(omitted).saturating_sub(shown);
    if more > 0 && room > 0 {
        let others = if shown > 0 { "more " } else { "" };
        let hint = format!("  {more} {others}held back: see kubectl evacuate status --watch=false {name}");
        lines.push(canvas.cut(&hint));
    }
    if !lines.is_empty() {
        lines.insert(0, "held back by".to_owned());
    }
    lines
}

/// Returns the blockers of the same cause and owner together.
fn groups(blockers: &[DrainBlocker]) -> Vec<Vec<&DrainBlocker>> {
    let mut groups: Vec<Vec<&DrainBlocker>> = Vec::new();
    for blocker in blockers {
        let same = |other: &&DrainBlocker| {
            (&other.reason, &other.owner, &other.message)
                == (&blocker.reason, &blocker.owner, &blocker.message)
        };
        match groups.iter_mut().find(|group| group.first().is_some_and(same)) {
            Some(group) => group.push(blocker),
            None => groups.push(vec![blocker]),
        }
    }
    groups
}

fn block(group: &[&DrainBlocker], canvas: &Canvas) -> Vec<String> {
    let Some(first) = group.first() else { return Vec::new() };
    let (cause, help) = way_out(&first.message);
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
    let owner = first.owner.as_ref().map(|owner| format!(" of {owner}")).unwrap_or_default();
    let text = plain(&format!("{} {}{more}{owner}: {cause}", first.reason, places.join(", ")));
    let colour = if first.stuck { Colour::Red } else { Colour::Yellow };
    let mut lines: Vec<String> =
        canvas.wrap(&text, "  ").iter().map(|line| canvas.paint(colour, line)).collect();
    if let Some(help) = help {
        lines.extend(canvas.wrap(&plain(&format!("to continue: {help}")), "    "));
    }
    lines
}
