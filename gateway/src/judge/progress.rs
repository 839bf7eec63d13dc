//! The progress of an Evacuation, as far as a caller is concerned.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{
    Answer, BlockedReason, ConditionType, Evacuation, EvacuationStatus, FailedReason, GATEWAY_ENTRY_PREFIX,
    ResponderState, from_condition_time,
};

use super::{Facts, Reply};

/// Time after the end of an Evacuation in which a call for the pod's successor counts as a retry. Callers
/// that name the pod and not its UID try again every 5 to 20 s.
const RETRY_SECONDS: i64 = 30;

/// Progress of an Evacuation that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// A responder is asked, or will be.
    Asking,
    /// Every responder is done, and the eviction may take place.
    Done {
        /// The time since which a budget holds the eviction back.
        blocked_for: Option<TimeDelta>,
    },
}

impl Progress {
    /// Returns the progress of an Evacuation that has not ended.
    pub(super) fn of(evacuation: &Evacuation, now: DateTime<Utc>) -> Self {
        let Some(status) = evacuation.status.as_ref().filter(|status| is_done(status)) else {
            return Self::Asking;
        };
        let by_budget =
            [BlockedReason::BudgetExhausted, BlockedReason::MultipleBudgets].map(BlockedReason::as_str);
        let blocked = status
            .true_condition(ConditionType::Blocked)
            .filter(|condition| by_budget.contains(&condition.reason.as_str()));
        Self::Done { blocked_for: blocked.map(|c| now - from_condition_time(&c.last_transition_time)) }
    }
}

/// Returns true when every responder is done. The last one may have accepted without the controller having
/// recorded the consequence.
fn is_done(status: &EvacuationStatus) -> bool {
    let Some(responders) = &status.responders else {
        return false;
    };
    responders.iter().all(|responder| {
        let accepted = responder.state == ResponderState::Active && responder.answer == Some(Answer::Accept);
        responder.state.is_done() || accepted
    })
}

/// Returns the reply from the record of a refusal that is still fresh.
pub(super) fn refused(facts: &Facts<'_>) -> Option<Reply> {
    let last = facts.last?;
    let status = last.status.as_ref()?;
    let failed = status.true_condition(ConditionType::Failed)?;
    if failed.reason != FailedReason::Refused.as_str() {
        return None;
    }
    let retry_times = status.responders.iter().flatten().filter_map(|responder| responder.retry_time);
    let asked_again = status.finish_time?.0 + TimeDelta::seconds(facts.row.ask_again_after_seconds.into());
    let until = retry_times.map(|time| time.0).fold(asked_again, DateTime::max);
    (facts.now < until).then(|| Reply::refused(facts.call, last, &failed.message, until))
}

/// Returns the reply to a retry that reached the successor of the pod: the pod that the caller meant is gone.
///
/// A StatefulSet's pod comes back under its name, and most callers name no UID.
pub(super) fn replaced(facts: &Facts<'_>) -> Option<Reply> {
    let before = facts.predecessor.filter(|_| facts.call.uid.is_none())?;
    let status = before.status.as_ref()?;
    status.true_condition(ConditionType::Evacuated)?;
    let is_recent = facts.now < status.finish_time?.0 + TimeDelta::seconds(RETRY_SECONDS);
    let asked = before
        .spec
        .requesters
        .iter()
        .any(|entry| entry.owner == facts.call.user.name && entry.name.starts_with(GATEWAY_ENTRY_PREFIX));
    (is_recent && asked).then(|| Reply::replaced(facts.call, before))
}
