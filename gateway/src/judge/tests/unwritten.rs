//! Entries that were not written.

use super::*;
use crate::{
    asking::AskError,
    judge::{NO_ROOM, REJECTED, UNREADABLE, Unwritten, unwritten},
};

/// Returns the cause of the reply to a caller whose entry met that error, or what else becomes of the call.
fn outcome(active: Option<&Evacuation>, expired: bool, error: &AskError) -> &'static str {
    let case = evict();
    let row = case.table.row(&case.call, &case.pod);
    let entry =
        Requester { owner: "alice".to_owned(), ..Requester::named("gateway.evacuation.dev/eviction") };
    match unwritten(&case.call, row, &entry, (active, expired), error, now()) {
        Unwritten::Waits(reply) => {
            assert_eq!(reply.code, 429);
            reply.cause
        }
        Unwritten::Gone => "gone",
        Unwritten::Unasked => "unasked",
    }
}

#[test]
fn only_an_api_that_does_not_answer_leaves_an_app_unasked_and_nobody_waits_for_a_question_that_left() {
    let own = json!({"owner": "alice", "name": "gateway.evacuation.dev/eviction"});
    let other = json!({"owner": "bob", "name": "gateway.evacuation.dev/eviction"});
    let status = asking();
    let (alone, shared) = (evacuation(&json!([own]), &status), evacuation(&json!([own, other]), &status));
    let asked = "EvacuationInProgress";
    let words = || "words".to_owned();
    for (error, unasked, of_expired) in [
        (AskError::Rejected(words()), REJECTED, REJECTED),
        (AskError::NoRoom(words()), NO_ROOM, NO_ROOM),
        (AskError::Unreadable { words: words(), evacuation: None }, UNREADABLE, UNREADABLE),
        (AskError::Unavailable("no reply".into()), "unasked", asked),
    ] {
        let outcomes = [
            outcome(None, false, &error),
            outcome(Some(&alone), true, &error),
            outcome(Some(&alone), false, &error),
            outcome(Some(&shared), true, &error),
        ];
        assert_eq!(outcomes, [unasked, of_expired, asked, asked], "{error}");
        assert_eq!(outcome(Some(&alone), false, &AskError::Gone), "gone");
    }
}
