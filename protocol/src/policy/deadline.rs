//! Deadlines of the entries.

use chrono::{DateTime, Utc};
use evacuation_api::{DeadlineAction, Policy, Requester, RequesterKey, ScheduledDeadline};

/// Returns the deadlines of one entry: those that were reached before, one of each action, and the one that
/// the entry names now.
pub(super) fn schedule(
    requester: &Requester,
    before: &[ScheduledDeadline],
    now: DateTime<Utc>,
) -> Vec<ScheduledDeadline> {
    let mut rows: Vec<_> =
        before.iter().filter(|d| d.reached && d.key() == requester.key()).cloned().collect();
    if let Some(time) = requester.deadline {
        let action = requester.at_deadline.unwrap_or_default();
        // What was reached once acts no second time.
        if !rows.iter().any(|row| row.action == action) {
            rows.push(ScheduledDeadline {
                owner: requester.owner.clone(),
                requester: requester.name.clone(),
                time: time.into(),
                action,
                reached: time.time() <= now,
            });
        }
    }
    rows
}

fn gave_up(deadline: &ScheduledDeadline) -> bool {
    deadline.reached && deadline.action == DeadlineAction::GiveUp
}

/// Returns true when that entry has expired: its `GiveUp` deadline was reached.
pub fn has_expired(policy: &Policy, requester: RequesterKey<'_>) -> bool {
    policy.deadlines.iter().any(|d| d.key() == requester && gave_up(d))
}

/// Returns true when there are entries and all of them have expired.
pub fn all_expired(requesters: &[Requester], policy: &Policy) -> bool {
    !requesters.is_empty() && requesters.iter().all(|r| has_expired(policy, r.key()))
}

/// Returns the first deadline with that action that was reached.
pub(crate) fn reached(policy: &Policy, action: DeadlineAction) -> Option<&ScheduledDeadline> {
    policy.deadlines.iter().find(|d| d.reached && d.action == action)
}

/// Returns the first deadline that was reached and ends the negotiation: Evict or Delete.
pub(crate) fn forced(policy: &Policy) -> Option<&ScheduledDeadline> {
    policy.deadlines.iter().find(|d| d.reached && d.action != DeadlineAction::GiveUp)
}

/// Returns the next deadline that would end the negotiation and was not reached yet.
pub(crate) fn next_forcing(policy: &Policy) -> Option<&ScheduledDeadline> {
    policy.deadlines.iter().find(|d| !d.reached && d.action != DeadlineAction::GiveUp)
}
