//! The question that is posted to an app.

use evacuation_api::{
    Answer, Evacuation, ObjectIdentity, Requester, ResponderStatus, ReviewAction, ReviewRequest,
    ReviewRequester, Timestamp,
};

use crate::{
    policy::next_forcing,
    time::{after, stamp},
};

/// Returns the question to that responder. `None` when the Evacuation has no such responder, or no identity
/// yet.
pub fn question(evacuation: &Evacuation, responder: &str, action: ReviewAction) -> Option<ReviewRequest> {
    let status = evacuation.status.as_ref()?;
    let asked = status.responders.iter().flatten().find(|r| r.name == responder)?;
    let metadata = &evacuation.metadata;
    let namespace = metadata.namespace.clone()?;
    let target = &evacuation.spec.target.pod;
    let policy = status.policy.clone().unwrap_or_default();
    let end = next_forcing(&policy).map(|deadline| deadline.time);
    Some(ReviewRequest {
        action,
        evacuation: ObjectIdentity {
            namespace: namespace.clone(),
            name: metadata.name.clone()?,
            uid: metadata.uid.clone()?,
        },
        pod: ObjectIdentity { namespace, name: target.name.clone(), uid: target.uid.clone()? },
        responder: responder.to_owned(),
        requesters: evacuation.spec.requesters.iter().map(review_requester).collect(),
        on_refusal: policy.on_refusal,
        answer_by: answer_by(asked).into_iter().chain(end).min().filter(|_| action != ReviewAction::Cancel),
        delay_until: asked.delay_until,
    })
}

/// Returns the time at which the question expires by the responder's own times. A refusal under Wait does not
/// expire.
fn answer_by(responder: &ResponderStatus) -> Option<Timestamp> {
    match responder.answer {
        None => responder.active_time.map(|since| stamp(after(since.0, responder.timeout_seconds))),
        Some(Answer::Delay) => responder.delay_until,
        Some(Answer::Accept | Answer::Refuse) => None,
    }
}

fn review_requester(requester: &Requester) -> ReviewRequester {
    ReviewRequester {
        name: requester.name.clone(),
        reason: requester.reason.clone(),
        message: requester.message.clone(),
        deadline: requester.deadline,
        at_deadline: requester.at_deadline,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        derive_policy,
        testing::{asking, at, requester},
    };
    use evacuation_api::DeadlineAction;

    #[test]
    fn the_question_names_both_objects_and_says_until_when() {
        let mut e = asking();
        let q = question(&e, "self", ReviewAction::Ask).unwrap();
        assert_eq!((q.evacuation.uid.as_str(), q.pod.uid.as_str()), ("evac-1", "pod-1"));
        assert_eq!((q.answer_by, q.delay_until), (Some(at(60).into()), None));
        assert_eq!(q.requesters[0].name, "a.b/r");

        let responder = &mut e.status.as_mut().unwrap().responders.as_mut().unwrap()[0];
        responder.answer = Some(Answer::Delay);
        responder.delay_until = Some(at(90).into());
        let q = question(&e, "self", ReviewAction::Remind).unwrap();
        assert_eq!((q.answer_by, q.delay_until), (Some(at(90).into()), Some(at(90).into())));
        assert_eq!(question(&e, "self", ReviewAction::Cancel).unwrap().answer_by, None);
        assert_eq!(question(&e, "a.b/c", ReviewAction::Ask), None);
    }

    #[test]
    fn the_question_lapses_at_the_deadline_if_that_comes_first() {
        let mut e = asking();
        let r = Requester {
            deadline: Some(at(20).into()),
            at_deadline: Some(DeadlineAction::Evict),
            ..requester("a.b/r")
        };
        e.status.as_mut().unwrap().policy = Some(derive_policy(&[r], None, at(0)));
        assert_eq!(question(&e, "self", ReviewAction::Ask).unwrap().answer_by, Some(at(20).into()));
    }
}
