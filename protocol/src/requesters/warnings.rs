//! Warnings for the writer of an entry that the server allows, and that is probably a mistake.

use evacuation_api::{Policy, Requester, RequesterKey, ScheduledDeadline, ScheduledWindow};

/// Returns the warnings for the writer of the entries with these keys.
///
/// A deadline that has passed, such as one of a wrong year, acts at once. One that comes before the window
/// opens acts outside of the window.
pub fn requester_warnings(
    requesters: &[Requester],
    policy: &Policy,
    written: &[RequesterKey<'_>],
) -> Vec<String> {
    let deadlines = policy.deadlines.iter().filter(|row| row.reached && written.contains(&row.key()));
    let windows = policy.windows.iter().filter(|row| written.contains(&row.key()));
    let early = windows.filter_map(|row| before_window(requesters, row));
    deadlines.map(passed).chain(early).collect()
}

fn passed(row: &ScheduledDeadline) -> String {
    format!(
        "requester {}: the deadline {} has passed and acts at once: {:?}",
        row.requester, row.time, row.action
    )
}

fn before_window(requesters: &[Requester], row: &ScheduledWindow) -> Option<String> {
    let entry = requesters.iter().find(|entry| entry.key() == row.key())?;
    let deadline = entry.deadline.filter(|deadline| deadline.time() <= row.time.0)?;
    let action = entry.at_deadline.unwrap_or_default();
    Some(format!(
        "requester {}: the deadline {deadline} comes before the window opens at {}, and acts outside of it: {action:?}",
        entry.name, row.time
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        derive_policy,
        testing::{at, requester},
    };
    use evacuation_api::DeadlineAction;

    #[test]
    fn a_deadline_that_has_passed_is_warned_of_to_its_writer_only() {
        let due = |seconds: i64| Requester {
            deadline: Some(at(seconds).into()),
            at_deadline: Some(DeadlineAction::Delete),
            ..requester("a.b/r")
        };
        for (seconds, warned) in [(10, true), (11, false)] {
            let entries = [due(seconds), requester("a.b/s")];
            let policy = derive_policy(&entries, None, at(10));
            let warnings = requester_warnings(&entries, &policy, &[entries[0].key()]);
            assert_eq!(warnings.len(), usize::from(warned), "{warnings:?}");
            assert!(
                warnings.iter().all(|w| w.contains("has passed and acts at once: Delete")),
                "{warnings:?}"
            );
            assert_eq!(requester_warnings(&entries, &policy, &[entries[1].key()]), [""; 0]);
        }
    }
}
