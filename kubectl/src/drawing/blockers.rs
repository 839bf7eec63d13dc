//! The blockers of a drain, with their ways out.

use evacuation_api::NodeEvacuationStatus;

use super::canvas::{Canvas, Colour};
use crate::plain::{plain, way_out};

/// Returns the blockers in their order, the stuck ones first, as far as `room` lines go.
pub(super) fn lines(name: &str, status: &NodeEvacuationStatus, canvas: &Canvas, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut shown = 0_usize;
    for blocker in &status.blockers {
        let (cause, help) = way_out(&blocker.message);
        let place = blocker.pod.as_ref().unwrap_or(&blocker.node);
        let owner = blocker.owner.as_ref().map(|owner| format!(" of {owner}")).unwrap_or_default();
        let text = plain(&format!("{} {place}{owner}: {cause}", blocker.reason));
        let colour = if blocker.stuck { Colour::Red } else { Colour::Yellow };
        let wrapped = canvas.wrap(&text, "  ");
        let mut block: Vec<String> = wrapped.iter().map(|line| canvas.paint(colour, line)).collect();
        if let Some(help) = help {
            block.extend(canvas.wrap(&plain(&format!("to continue: {help}")), "    "));
        }
        // Two lines are for the head and for the number of the others.
        if lines.len().saturating_add(block.len()).saturating_add(2) > room {
            break;
        }
        lines.extend(block);
        shown = shown.saturating_add(1);
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
