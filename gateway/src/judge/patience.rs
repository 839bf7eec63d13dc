//! The patience of a counted deletion that a budget holds back, and the pause before a caller tries again.

use chrono::{DateTime, Utc};
use evacuation_api::{CallerRow, Evacuation, RequesterKey};
use evacuation_protocol::{joined_at, passes_budgets_at};

use super::{Facts, expired_in};
use crate::call::Call;

/// Returns true when a budget has held the caller back for as long as its row allows. An entry that expired
/// counts no more, also before the controller has recorded that: its caller stopped trying.
pub(super) fn is_over(facts: &Facts<'_>, active: &Evacuation) -> bool {
    expired_in(facts, active).is_none()
        && end(facts.call, facts.row, active).is_some_and(|end| end <= facts.now)
}

/// Returns the time from which the call passes the budgets that hold it back now.
pub(super) fn end(call: &Call, row: &CallerRow, active: &Evacuation) -> Option<DateTime<Utc>> {
    let key = RequesterKey { owner: &call.user.name, name: &row.entry_name() };
    passes_budgets_at(active.status.as_ref()?, key, row.blocked_patience_seconds.into())
}

/// Returns the time at which the caller's entry was made, unless the entry has expired.
pub(super) fn joined(call: &Call, row: &CallerRow, active: &Evacuation) -> Option<DateTime<Utc>> {
    let key = RequesterKey { owner: &call.user.name, name: &row.entry_name() };
    joined_at(active.status.as_ref()?, key)
}

/// Returns the seconds of Retry-After for a caller that waits for an Evacuation: the longest without an entry
/// of its own.
pub(super) fn retry_after(call: &Call, row: &CallerRow, active: &Evacuation, now: DateTime<Utc>) -> u32 {
    joined(call, row, active).map_or(row.longest_retry_after(), |joined| row.retry_after(now - joined))
}
