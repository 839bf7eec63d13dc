//! A line for each pod that is not gone: its state, its answer and the text of the answer.

use evacuation_client::End;

use super::canvas::{Canvas, Colour};
use crate::{
    moment::{Now, count},
    plain::{columns, plain},
    tracked::{Tracked, Unanswered, failure},
};

/// Returns the pods that are not gone, at most `room` lines in all. Those that hold a drain up come first.
pub(super) fn lines(pods: &[&Tracked], canvas: &Canvas, now: Now, room: usize) -> Vec<String> {
    let mut left: Vec<&Tracked> = pods.iter().copied().filter(|pod| !pod.is_gone()).collect();
    if left.is_empty() || room == 0 {
        return Vec::new();
    }
    left.sort_by_key(|pod| (rank(pod), pod.pod.clone()));
    let all = left.len();
    if all > room {
        left.truncate(room.saturating_sub(1));
    }
    let omitted = all - left.len();
    let rows: Vec<_> = left.iter().map(|pod| row(pod, now)).collect();
    let mut lines: Vec<String> = columns(&rows)
        .iter()
        .zip(&left)
        .map(|(line, pod)| canvas.paint(colour(pod), &canvas.cut(&format!("  {line}"))))
        .collect();
    if omitted > 0 {
        lines.push(canvas.paint(Colour::Faint, &format!("  and {}", count(omitted, "more pod"))));
    }
    lines
}

fn row(pod: &Tracked, now: Now) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    match &pod.end {
        Some(End::Failed { reason, message }) => words.push(failure(pod.state, reason, message)),
        Some(End::Evacuated { .. }) => {}
        None => {
            words.extend(pod.unanswered.iter().map(Unanswered::text));
            words.extend(pod.said.iter().map(|said| format!("\"{said}\"")));
            words.extend(pod.next.and_then(|next| next.text(now)));
            if pod.state == "Blocked" {
                words.push(pod.blocked_by.join(" and "));
            }
        }
    }
    words.retain(|word| !word.is_empty());
    vec![pod.pod.clone(), pod.state().to_owned(), plain(&words.join(", "))]
}

/// Returns the order of a state: what a person may have to change comes first.
fn rank(pod: &Tracked) -> u8 {
    match pod.state {
        "Failed" | "Canceled" | "Refused" | "DeletedDespiteAnswer" => 0,
        "Blocked" => 1,
        "Delayed" => 2,
        "Asking" => 3,
        "Pending" | "Scheduled" => 4,
        _ => 5,
    }
}

fn colour(pod: &Tracked) -> Colour {
    match rank(pod) {
        0 => Colour::Red,
        1 | 2 => Colour::Yellow,
        5 => Colour::Faint,
        _ => Colour::Plain,
    }
}
