//! Texts of objects as plain text of a terminal.

use chrono::TimeDelta;
use evacuation_api::DrainBlocker;
use evacuation_protocol::{is_unseen, message_parts};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::moment::Now;

/// Returns `NAMESPACE/NAME`.
pub(crate) fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

/// Replaces control characters, with which a text of an app could write anywhere on the terminal, and those
/// that are not seen or change the order of others.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if is_unseen(c) { ' ' } else { c }).collect()
}

/// Beginning of the way out of a blocker that needs no person.
const NOTHING: &str = "nothing is needed";

/// Returns true for a blocker that goes without a person's doing.
pub(crate) fn needs_nothing(blocker: &DrainBlocker) -> bool {
    !blocker.stuck && message_parts(&blocker.message).1.is_some_and(|help| help.starts_with(NOTHING))
}

/// Returns what helps against a blocker, unless nothing is needed. `None` while no controller works: before
/// one does, nothing else moves a pod.
pub(crate) fn help(message: &str, now: Now) -> Option<&str> {
    message_parts(message).1.filter(|help| now.led && !help.starts_with(NOTHING))
}

/// Returns an age or a rest as kubectl prints it: `90s`, `5m`, `3h`, `2d`.
pub(crate) fn short(age: TimeDelta) -> String {
    let seconds = age.num_seconds().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns the pod or the node of a blocker, and the owner.
pub(crate) fn place(blocker: &DrainBlocker) -> String {
    let place = match &blocker.pod {
        Some(pod) => format!("pod/{pod}"),
        None => format!("node/{}", blocker.node),
    };
    let owner = blocker.owner.as_ref().map(|owner| format!(" of {owner}")).unwrap_or_default();
    place + &owner
}

/// Joins the cells of rows to lines with aligned columns. The last cell of a row has no width.
pub(crate) fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let width = |place: usize| {
        rows.iter()
            .filter_map(|row| row.get(place))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(place, cell)| format!("{cell:<0$}", width(place)));
        cells.collect::<Vec<_>>().join("   ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_cannot_move_the_cursor() {
        assert_eq!(plain("a\u{1b}[2Jb\nc"), "a [2Jb c");
    }

    #[test]
    fn an_age_is_short() {
        for (seconds, expected) in [(-3, "0s"), (90, "90s"), (300, "5m"), (10_800, "3h"), (200_000, "2d")] {
            assert_eq!(short(TimeDelta::seconds(seconds)), expected);
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>();
        let rows = [row(&["NAME", "NODES", "MESSAGE"]), row(&["long-name", "1", ""])];
        assert_eq!(columns(&rows), ["NAME        NODES   MESSAGE", "long-name   1"]);
    }
}
