//! The patience of a counted deletion that a budget holds back.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::Evacuation;
use evacuation_protocol::has_expired;

use super::{Facts, progress::budget_blocked_since};

/// Returns true when a budget has held the caller back for as long as its row allows.
///
/// The time counts from the later of two: the caller's own entry was made, and a budget became the reason.
/// Neither the patience of another requester nor time under another reason counts.
pub(super) fn is_over(facts: &Facts<'_>, active: &Evacuation) -> bool {
    let Some((blocked, joined)) = budget_blocked_since(active).zip(joined(facts, active)) else {
        return false;
    };
    facts.now - blocked.max(joined) >= TimeDelta::seconds(facts.row.blocked_patience_seconds.into())
}

/// Returns the time at which the caller's entry was made, unless the entry has expired.
pub(super) fn joined(facts: &Facts<'_>, active: &Evacuation) -> Option<DateTime<Utc>> {
    let status = active.status.as_ref()?;
    let name = facts.row.entry_name();
    let own = status.requesters.iter().find(|known| {
        known.owner == facts.call.user.name && known.name == name && known.left_time.is_none()
    })?;
    let expired = status.policy.as_ref().is_some_and(|policy| has_expired(policy, own.key()));
    (!expired).then(|| own.joined().0)
}
