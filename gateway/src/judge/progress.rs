//! The progress of an Evacuation, as far as a caller is concerned.

use chrono::{DateTime, TimeDelta};
use evacuation_api::{Answer, ConditionType, Evacuation, EvacuationStatus, FailedReason, ResponderState};

use super::{Facts, Reply, group};

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
    let own = facts.last.and_then(|last| refused_by(facts, last));
    let mates = || group::concerned(facts).iter().filter_map(|mate| mate.last.as_deref());
    own.or_else(|| mates().find_map(|last| refused_by(facts, last)))
}

fn refused_by(facts: &Facts<'_>, last: &Evacuation) -> Option<Reply> {
    let status = last.status.as_ref()?;
    let failed = status.true_condition(ConditionType::Failed)?;
    if !matches!(status.reason(), Some(FailedReason::Refused | FailedReason::PodGroupRefused)) {
        return None;
    }
    let retry_times = status.responders.iter().flatten().filter_map(|responder| responder.retry_time);
    let asked_again = status.finish_time?.0 + TimeDelta::seconds(facts.row.ask_again_after_seconds.into());
    let until = retry_times.map(|time| time.0).fold(asked_again, DateTime::max);
    (facts.now < until).then(|| Reply::refused(facts.call, last, &failed.message, until))
}
