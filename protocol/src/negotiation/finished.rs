//! Steps after the end: the cancellation for the responders that were asked, and the removal of the object
//! when its time to live is over.

use chrono::{DateTime, Utc};
use evacuation_api::{
    CANCELLATION_FINALIZER, DEFAULT_TTL_SECONDS_AFTER_FINISHED, Evacuation, EvacuationStatus, FailedReason,
    ReviewAction,
};

use super::{Act, Decision, Push, World};
use crate::{
    pod::PodPhase,
    requesters::MIN_SHARED_TTL_SECONDS,
    responders::{ACKNOWLEDGEMENT_SECONDS, acknowledgement_until, asked_responders},
    time::{after, sooner},
};

pub(super) fn after_the_end(
    evacuation: &Evacuation,
    status: &EvacuationStatus,
    world: &World,
    now: DateTime<Utc>,
) -> Decision {
    let mut decision = Decision::default();
    let until_acknowledged = acknowledgement_until(status)
        .map(|until| world.recovered_at.map_or(until, |time| until.max(after(time, ACKNOWLEDGEMENT_SECONDS))))
        .filter(|until| now < *until);
    let reachable = world.pod.live().is_some_and(|pod| pod.phase != PodPhase::Terminal);
    let metadata = &evacuation.metadata;
    let deleted = metadata.deletion_timestamp.is_some();
    // Only a deletion waits no longer: an app that is not told stays out of work.
    if until_acknowledged.is_some() || !deleted {
        decision.acts.extend(cancellations(status, reachable).map(Act::Push));
    }
    decision.wake_at = until_acknowledged.filter(|_| deleted);

    if deleted {
        let held = metadata.finalizers.iter().flatten().any(|f| f == CANCELLATION_FINALIZER);
        if held && until_acknowledged.is_none() {
            decision.acts.push(Act::ReleaseFinalizer);
        }
        return decision;
    }
    let kept = kept_seconds(evacuation, status);
    let Some(end) = status.finish_time.map(|time| after(time.0, kept)) else {
        return decision;
    };
    if end <= now {
        decision.acts.push(Act::Remove);
    } else {
        decision.wake_at = sooner(decision.wake_at, Some(end));
    }
    decision
}

/// Returns the seconds for which a finished Evacuation is kept.
///
/// A record that its requesters left before the pod moved, and whose entries the gateway or the controller
/// writes for users, is kept for a shorter time. A user makes any number of these by calls that the gateway
/// takes for questions.
fn kept_seconds(evacuation: &Evacuation, status: &EvacuationStatus) -> i64 {
    let ttl = evacuation.spec.ttl_seconds_after_finished.unwrap_or(DEFAULT_TTL_SECONDS_AFTER_FINISHED);
    let is_left = matches!(status.reason(), Some(FailedReason::Canceled | FailedReason::DeadlineGaveUp));
    let mut requesters = status.requesters.iter();
    let by_others = !status.requesters.is_empty() && requesters.all(|known| known.user != known.owner);
    if is_left && by_others { ttl.min(MIN_SHARED_TTL_SECONDS) } else { ttl }
}

/// Returns the cancellations for endpoints that have not acknowledged them: Services, and the pod while it
/// can be reached.
fn cancellations(status: &EvacuationStatus, reachable: bool) -> impl Iterator<Item = Push> {
    let due = status.finish_time.map(|time| time.0).unwrap_or_default();
    let missing = asked_responders(status)
        .into_iter()
        .filter(move |r| r.service.is_some() || (r.http.is_some() && reachable))
        .filter(|r| !r.cancellation_acknowledged);
    missing.map(move |r| Push { responder: r.name.clone(), action: ReviewAction::Cancel, due })
}
