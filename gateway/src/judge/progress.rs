//! The progress of an Evacuation, as far as a caller is concerned.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{Answer, ConditionType, Evacuation, EvacuationStatus, FailedReason, ResponderState};

use super::{Facts, Mate, Reply, group};

/// Progress of an Evacuation that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// A responder is asked, or will be.
    Asking,
    /// Every responder is done, and the eviction may take place.
    Done,
}

impl Progress {
    /// Returns the progress of an Evacuation that has not ended.
    pub(super) fn of(evacuation: &Evacuation) -> Self {
        if evacuation.status.as_ref().is_some_and(is_done) { Self::Done } else { Self::Asking }
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

/// Returns the reply from the record of a refusal that is still fresh: that of the pod's app, or of another
/// pod's in its PodGroup.
pub(super) fn refused(facts: &Facts<'_>) -> Option<Reply> {
    let mates = group::concerned(facts).iter().filter_map(ended);
    facts.last.into_iter().chain(mates).find_map(|last| {
        let (message, until) = fresh_refusal(facts, last)?;
        Some(Reply::refused(facts.call, last, message, until))
    })
}

/// Returns the Evacuation of another member that ended last, unless its app has accepted since.
pub(super) fn ended(mate: &Mate) -> Option<&Evacuation> {
    let accepted = mate.active.as_deref().is_some_and(|active| Progress::of(active) == Progress::Done);
    mate.last.as_deref().filter(|_| !accepted)
}

/// Returns the words of the refusal that ended an Evacuation, and the time from which its app is asked again.
/// `None` for another end, and from that time on.
pub(super) fn fresh_refusal<'a>(facts: &Facts<'_>, last: &'a Evacuation) -> Option<(&'a str, DateTime<Utc>)> {
    let status = last.status.as_ref()?;
    let failed = status.true_condition(ConditionType::Failed)?;
    if !matches!(status.reason(), Some(FailedReason::Refused | FailedReason::PodGroupRefused)) {
        return None;
    }
    let retry_times = status.responders.iter().flatten().filter_map(|responder| responder.retry_time);
    let asked_again = status.finish_time?.0 + TimeDelta::seconds(facts.row.ask_again_after_seconds.into());
    let until = retry_times.map(|time| time.0).fold(asked_again, DateTime::max);
    (facts.now < until).then_some((failed.message.as_str(), until))
}
