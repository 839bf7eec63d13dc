//! What becomes of a call whose entry was not written.

use chrono::{DateTime, Utc};
use evacuation_api::{CallerRow, Evacuation, Requester};

use super::Reply;
use crate::{asking::AskError, call::Call};

/// What becomes of a call whose entry was not written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Unwritten {
    /// The caller waits.
    Waits(Reply),
    /// The pod is gone: another may have its name by now.
    Gone,
    /// The evacuation API does not answer, so nobody was asked.
    Unasked,
}

/// Decides about a call whose entry was not written because of that error.
///
/// `active` is the Evacuation of the pod before. With `expired`, the caller's expired entry was to leave it
/// first.
pub(crate) fn unwritten(
    call: &Call,
    row: &CallerRow,
    entry: &Requester,
    (active, expired): (Option<&Evacuation>, bool),
    error: &AskError,
    now: DateTime<Utc>,
) -> Unwritten {
    let waiting = |active: &Evacuation| Unwritten::Waits(Reply::waiting(call, row, active, now));
    // The app is asked by the entries of others, although this caller's has no place.
    let asked =
        active.filter(|active| !expired || active.spec.requesters.iter().any(|r| r.key() != entry.key()));
    match (error, asked) {
        (AskError::Gone, _) => Unwritten::Gone,
        // A pause of seconds is no outage.
        (AskError::Unavailable(_), _) => active.map_or(Unwritten::Unasked, waiting),
        (_, Some(asked)) => waiting(asked),
        // The app may have refused, or may have asked for time.
        (AskError::Unreadable { words, .. }, None) => Unwritten::Waits(Reply::unreadable(call, row, words)),
        // Whoever fills a namespace would otherwise open the way to its pods.
        (AskError::NoRoom(words), None) => Unwritten::Waits(Reply::no_room(call, row, words)),
        // The API answers, so this is no outage: the question is wrong, which is not the app's fault.
        (AskError::Rejected(words), None) => Unwritten::Waits(Reply::rejected(call, row, words)),
    }
}
