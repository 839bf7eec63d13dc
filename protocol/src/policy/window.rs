//! Windows: entries that sleep until their window opens.
//!
//! An entry without a window is awake at once. An entry with a window sleeps until the window is open for the
//! first time since the entry was set, or until its own Evict or Delete deadline is reached. From then on it
//! is awake. While every live entry sleeps, no responder is asked and no pod is evicted.

use chrono::{DateTime, Utc};
use evacuation_api::{
    EvacuationStatus, Policy, Requester, RequesterKey, ScheduledWindow, Window, WindowCalendar,
};

use super::deadline::has_expired;
use crate::time::stamp;

/// Returns the times at which the entries with a window wake, soonest first. An entry keeps its time while it
/// keeps its window, and stays awake. A window that cannot be read has no row: its entry sleeps.
pub(super) fn schedule(
    requesters: &[Requester],
    before: &[ScheduledWindow],
    now: DateTime<Utc>,
) -> Vec<ScheduledWindow> {
    let row = |requester: &Requester| {
        let window = requester.window.as_ref()?;
        if let Some(known) = before.iter().find(|row| row.key() == requester.key()) {
            return Some(ScheduledWindow { reached: known.reached || known.time.0 <= now, ..known.clone() });
        }
        let time = stamp(WindowCalendar::read(window).ok()?.first_open(now)?);
        let (owner, name) = (requester.owner.clone(), requester.name.clone());
        Some(ScheduledWindow { owner, requester: name, time, reached: time.0 <= now })
    };
    let mut rows: Vec<_> = requesters.iter().filter_map(row).collect();
    rows.sort_by(|a, b| (a.time, &a.requester, &a.owner).cmp(&(b.time, &b.requester, &b.owner)));
    rows
}

/// Removes the rows of the entries whose window changed: they count from the edit.
pub(crate) fn forget_changed(policy: &mut Policy, old: &[Requester], new: &[Requester]) {
    policy.windows.retain(|row| window(old, row) == window(new, row));
}

fn window<'a>(entries: &'a [Requester], row: &ScheduledWindow) -> Option<&'a Window> {
    entries.iter().find(|entry| entry.key() == row.key())?.window.as_ref()
}

/// Returns true when an entry that has not expired is awake, by the deadlines and windows of the policy.
pub(crate) fn is_awake(requester: &Requester, policy: &Policy) -> bool {
    let opened = policy.windows.iter().any(|row| row.reached && row.key() == requester.key());
    // A deadline acts by itself, window or not, and how it acts is its entry's word. One that gave up left no
    // live entry.
    let forces = policy.deadlines.iter().any(|d| d.reached && d.key() == requester.key());
    requester.window.is_none() || opened || forces
}

/// Returns the time at which the next sleeping live entry wakes because its window opens.
pub(super) fn next_opening(requesters: &[Requester], policy: &Policy) -> Option<DateTime<Utc>> {
    let sleeps = |key: RequesterKey<'_>| {
        requesters.iter().any(|r| r.key() == key && !has_expired(policy, key) && !is_awake(r, policy))
    };
    let next = policy.windows.iter().find(|row| !row.reached && sleeps(row.key()));
    next.map(|row| row.time.0)
}

/// Returns true when there are live entries and all of them sleep. Then no responder is asked, and no pod is
/// evicted.
pub fn all_asleep(requesters: &[Requester], policy: &Policy) -> bool {
    let mut live = requesters.iter().filter(|r| !has_expired(policy, r.key())).peekable();
    live.peek().is_some() && live.all(|r| !is_awake(r, policy))
}

/// Returns true when every live entry sleeps, and no eviction is in flight or accepted.
pub(crate) fn rests(requesters: &[Requester], status: &EvacuationStatus, policy: &Policy) -> bool {
    let on_its_way = status.eviction.as_ref().is_some_and(|e| e.in_flight || e.accepted);
    !on_its_way && all_asleep(requesters, policy)
}

#[cfg(test)]
mod tests;
