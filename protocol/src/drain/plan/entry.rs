//! The times at which a drain begins and is deleted, and its entry in Evacuations.

use chrono::{DateTime, Utc};
use evacuation_api::{
    DrainConditionType, NodeEvacuation, Requester, WholeSecond, WindowCalendar, from_condition_time,
};

use crate::time::after;

/// Returns the time at which a drain begins: its creation, or the first opening of its window after it.
/// A drain that has begun keeps its time. `None` for a window that never opens.
///
/// `spec.requester.deadlineSeconds` counts from it.
pub fn start_time(drain: &NodeEvacuation) -> Option<DateTime<Utc>> {
    let begun = drain.status.as_ref().filter(|status| !status.nodes.is_empty());
    if let Some(start) = begun.and_then(|status| status.start_time) {
        return Some(start.0);
    }
    let created =
        drain.metadata.creation_timestamp.as_ref().map_or(DateTime::UNIX_EPOCH, from_condition_time);
    match &drain.spec.requester.window {
        Some(window) => WindowCalendar::read(window).ok()?.first_open(created),
        None => Some(created),
    }
}

/// Returns the drain's entry. Its owner is the user who drains. `None` before the server recorded the user.
pub fn drain_entry(drain: &NodeEvacuation) -> Option<Requester> {
    let wanted = &drain.spec.requester;
    let owner = &drain.status.as_ref()?.requester.as_ref()?.user;
    let start = start_time(drain)?;
    let deadline = wanted.deadline_seconds.map(|seconds| WholeSecond::from(after(start, seconds)));
    let name = drain.metadata.name.as_deref().unwrap_or_default();
    let message = || format!("nodeevacuation {name} drains the pod's node");
    Some(Requester {
        owner: owner.clone(),
        reason: Some(wanted.reason.clone().unwrap_or_else(|| "NodeMaintenance".to_owned())),
        message: Some(wanted.message.clone().unwrap_or_else(message)),
        on_refusal: Some(wanted.on_refusal.unwrap_or_default()),
        deadline,
        at_deadline: deadline.map(|_| wanted.at_deadline.unwrap_or_default()),
        grace_period_seconds: wanted.grace_period_seconds,
        ..Requester::named(drain.entry_name()?)
    })
}

/// Returns the time at which a drain that has ended is deleted. `None` for one that stays.
pub fn drain_expiry(drain: &NodeEvacuation) -> Option<DateTime<Utc>> {
    let status = drain.status.as_ref().filter(|status| status.is_true(DrainConditionType::Finished))?;
    Some(after(status.finish_time?.0, drain.spec.ttl_seconds_after_finished?))
}
