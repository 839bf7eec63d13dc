//! Acknowledgements of a cancellation: the responders that owe one, and the time that an object waits for
//! them.

use chrono::{DateTime, Utc};
use evacuation_api::{ConditionType, EvacuationStatus, ResponderState, ResponderStatus};

use crate::time::after;

/// Maximum time for which a deleted Evacuation waits for acknowledgements after it finished, in seconds.
pub const ACKNOWLEDGEMENT_SECONDS: i64 = 30;

/// Returns the responders that were asked before the Evacuation failed, and so must acknowledge its end. None
/// when the pod is gone: nothing is left to undo.
pub fn asked_responders(status: &EvacuationStatus) -> Vec<&ResponderStatus> {
    if !status.is_true(ConditionType::Failed) {
        return Vec::new();
    }
    let all = status.responders.as_deref().unwrap_or_default();
    all.iter().filter(|r| r.state == ResponderState::Canceled && r.active_time.is_some()).collect()
}

/// Returns the time until which the object waits for acknowledgements. `None` when none is missing.
pub(crate) fn acknowledgement_until(status: &EvacuationStatus) -> Option<DateTime<Utc>> {
    let missing = asked_responders(status).iter().any(|r| !r.cancellation_acknowledged);
    status.finish_time.filter(|_| missing).map(|time| after(time.0, ACKNOWLEDGEMENT_SECONDS))
}

/// Returns true while the object waits for an acknowledgement.
pub fn awaits_acknowledgement(status: &EvacuationStatus, now: DateTime<Utc>) -> bool {
    acknowledgement_until(status).is_some_and(|until| now < until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cancel,
        testing::{asking, at, responder},
    };
    use evacuation_api::{Answer, ResponderState::*};

    #[test]
    fn those_who_were_asked_must_learn_and_those_who_were_not_need_not() {
        let mut status = asking().status.unwrap();
        let mut accepted = responder("a.b/accepted", Completed);
        accepted.active_time = Some(at(0).into());
        accepted.answer = Some(Answer::Accept);
        let mut slow = responder("a.b/slow", Interrupted);
        slow.active_time = Some(at(0).into());
        status.responders.as_mut().unwrap().splice(0..0, [accepted, slow]);
        status.responders.as_mut().unwrap().push(responder("a.b/next", Inactive));
        let mut status = cancel(&status, "x", at(5));
        let names: Vec<_> = asked_responders(&status).iter().map(|r| r.name.clone()).collect();
        assert_eq!(names, ["a.b/accepted", "a.b/slow", "self"]);
        assert!(awaits_acknowledgement(&status, at(34)));
        assert!(!awaits_acknowledgement(&status, at(35)), "nobody is waited for longer than 30 s");
        for r in status.responders.iter_mut().flatten() {
            r.cancellation_acknowledged = r.active_time.is_some();
        }
        assert!(!awaits_acknowledgement(&status, at(6)));
    }
}
