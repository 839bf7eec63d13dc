//! Pods whose responders are done: the evictor has them.

use chrono::{DateTime, Utc};
use evacuation_api::{
    BlockedReason, ConditionType, DeadlineAction, DrainBlockerReason, EvictionAction, from_condition_time,
};

use super::{Hold, PodCount, PodJudgement, asked::Ask, budget, command, text};
use crate::{
    TERMINATING_MARGIN_SECONDS, left_to_callers_until,
    policy::{next_forcing, reached},
    time::after,
};

/// Time after an accepted eviction at which a pod that does not terminate counts as stuck, in seconds.
const IGNORED_SECONDS: i64 = 300;

/// Judges a pod whose responders are done, or whose eviction was accepted.
pub(super) fn judge(ask: &Ask<'_>) -> PodJudgement {
    if ask.status.eviction.as_ref().is_some_and(|eviction| eviction.accepted) {
        return accepted(ask);
    }
    // No budget holds the deletion by a caller.
    if let Some(until) = left_to_callers_until(ask.evacuation).filter(|until| ask.now < *until) {
        return PodJudgement::of(PodCount::Evicting).changing_at(until);
    }
    let deletes = reached(&ask.policy, DeadlineAction::Delete).is_some();
    let hold = group(ask).or_else(|| rejected(ask));
    let hold = hold.or_else(|| if deletes { None } else { budget::hold(ask) });
    let Some(hold) = hold else { return PodJudgement::of(PodCount::Evicting).expected(deletion_time(ask)) };
    let hold = match deletion_time(ask) {
        Some(time) => hold.until_deleted(time),
        None => hold,
    };
    PodJudgement::held(PodCount::Blocked, ask.pod, hold)
}

/// Returns the time of the next deadline that deletes the pod.
pub(super) fn deletion_time(ask: &Ask<'_>) -> Option<DateTime<Utc>> {
    let mut deadlines = ask.policy.deadlines.iter();
    deadlines.find(|d| !d.reached && d.action == DeadlineAction::Delete).map(|d| d.time.0)
}

/// Judges a pod whose eviction was accepted and whose `deletionTimestamp` is not there.
fn accepted(ask: &Ask<'_>) -> PodJudgement {
    let since = ask.status.eviction.as_ref().and_then(|e| e.last_attempt_time).map_or(ask.now, |time| time.0);
    let limit = after(since, TERMINATING_MARGIN_SECONDS);
    if ask.now < limit {
        return PodJudgement::of(PodCount::Evicting).changing_at(limit);
    }
    let cause =
        format!("the API accepted the eviction at {}, and the pod does not terminate", text::time(since));
    let way_out = format!(
        "look for an admission webhook that answers evictions itself, or run {}",
        command::delete(ask.pod.pod)
    );
    let hold = Hold::new(DrainBlockerReason::Terminating, ask.pod.object(), since, cause, way_out)
        .stuck_from(after(since, IGNORED_SECONDS), ask.now);
    PodJudgement::held(PodCount::Evicting, ask.pod, hold)
}

/// Returns the hold by another pod of the PodGroup.
fn group(ask: &Ask<'_>) -> Option<Hold> {
    let blocked = ask.status.true_condition(ConditionType::Blocked)?;
    let cause = format!("the pods of its PodGroup move together{}", text::remark([blocked.message.as_str()]));
    let way_out = "look at the Evacuation of the pod that is named";
    let hold = |reason| Hold::new(reason, ask.object(), blocked_since(ask), cause, way_out);
    let deadline = next_forcing(&ask.policy).map(|deadline| deadline.time.0);
    match ask.status.reason() {
        Some(BlockedReason::PodGroup) => Some(hold(DrainBlockerReason::PodGroup).expected(deadline)),
        Some(BlockedReason::Refused) if deadline.is_none() => {
            Some(hold(DrainBlockerReason::Refused).stuck().until_it_ends(ask.pod))
        }
        Some(BlockedReason::Refused) => Some(hold(DrainBlockerReason::Refused).expected(deadline)),
        _ => None,
    }
}

/// Returns the hold by a webhook, or by the API itself, that rejects the attempts.
fn rejected(ask: &Ask<'_>) -> Option<Hold> {
    if ask.status.reason() != Some(BlockedReason::EvictionRejected) {
        return None;
    }
    let message =
        ask.status.true_condition(ConditionType::Blocked).map(|condition| condition.message.as_str());
    let deletion = ask.status.eviction.as_ref().is_some_and(|e| e.action == Some(EvictionAction::Delete));
    let act = if deletion { "deletion" } else { "eviction" };
    let cause =
        format!("the API or an admission webhook rejects the {act} of the pod{}", text::remark(message));
    let mut way_out = "remove the cause that the reply names; the controller retries".to_owned();
    if !deletion {
        let delete = command::delete_at_deadline(ask.pod);
        way_out = format!("{way_out}; or have the pod deleted at a deadline: {delete}");
    }
    let hold =
        Hold::new(DrainBlockerReason::EvictionRejected, ask.object(), blocked_since(ask), cause, way_out);
    Some(hold.stuck_when_it_lasts(ask.now).until_it_ends(ask.pod))
}

/// Returns the time since which the eviction is held back, as far as the Evacuation tells.
pub(super) fn blocked_since(ask: &Ask<'_>) -> DateTime<Utc> {
    let blocked = ask.status.true_condition(ConditionType::Blocked);
    let answered = || {
        let responders = ask.status.responders.iter().flatten();
        responders.filter_map(|r| r.answer_time.or(r.active_time)).max().map(|time| time.0)
    };
    blocked
        .map(|condition| from_condition_time(&condition.last_transition_time))
        .or_else(answered)
        .or_else(|| ask.evacuation.metadata.creation_timestamp.as_ref().map(from_condition_time))
        .unwrap_or(ask.now)
}
