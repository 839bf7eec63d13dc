//! The question that is posted to an app.

use chrono::{DateTime, Utc};
use evacuation_api::{
    Evacuation, ObjectIdentity, Requester, ResponderStatus, ReviewAction, ReviewRequest, ReviewRequester,
    Timestamp,
};

use super::expiry::{answerable_until, expiry_time, longest_end, reminder_time};
use crate::{policy::next_forcing, time::stamp};

/// Returns the question to that responder; `None` when the Evacuation has no such responder or no identity
/// yet. The time to answer counts from `delivered`: the time at which this very question first reached the
/// endpoint, or now.
pub fn question(
    evacuation: &Evacuation,
    responder: &str,
    action: ReviewAction,
    delivered: DateTime<Utc>,
) -> Option<ReviewRequest> {
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
        rehearsal: evacuation.spec.rehearsal,
        answer_by: answer_by(asked, delivered)
            .into_iter()
            .chain(end)
            .min()
            .filter(|_| action != ReviewAction::Cancel),
        delay_until: asked.delay_until,
    })
}

/// Time at which the question expires by the responder's own times. A refusal under Wait does not expire.
fn answer_by(responder: &ResponderStatus, delivered: DateTime<Utc>) -> Option<Timestamp> {
    match responder.answer {
        None if responder.is_pushed() => {
            let answerable = answerable_until(responder, delivered);
            Some(stamp(expiry_time(responder).map_or(answerable, |expiry| expiry.max(answerable))))
        }
        // A reminder can be late, or the delay too short for an exchange.
        _ => {
            let by = reminder_time(responder).and_then(|time| delivered.checked_add_signed(time));
            let by = by.zip(longest_end(responder)).map(|(by, end)| by.min(end));
            expiry_time(responder).map(|expiry| stamp(by.map_or(expiry, |by| expiry.max(by))))
        }
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
    use evacuation_api::{Answer, DeadlineAction, HttpEndpoint};

    #[test]
    fn the_question_names_both_objects_and_says_until_when() {
        let mut e = asking();
        let q = question(&e, "self", ReviewAction::Ask, at(5)).unwrap();
        assert_eq!((q.evacuation.uid.as_str(), q.pod.uid.as_str()), ("evac-1", "pod-1"));
        assert_eq!((q.answer_by, q.delay_until), (Some(at(60).into()), None));
        assert_eq!(q.requesters[0].name, "a.b/r");

        let responder = &mut e.status.as_mut().unwrap().responders.as_mut().unwrap()[0];
        responder.answer = Some(Answer::Delay);
        responder.delay_until = Some(at(90).into());
        let q = question(&e, "self", ReviewAction::Remind, at(5)).unwrap();
        assert_eq!((q.answer_by, q.delay_until), (Some(at(90).into()), Some(at(90).into())));
        assert_eq!(question(&e, "self", ReviewAction::Cancel, at(5)).unwrap().answer_by, None);
        assert_eq!(question(&e, "a.b/c", ReviewAction::Ask, at(5)), None);
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
        assert_eq!(question(&e, "self", ReviewAction::Ask, at(5)).unwrap().answer_by, Some(at(20).into()));
    }

    #[test]
    fn the_first_question_to_an_endpoint_leaves_the_whole_timeout_however_late_it_is_posted() {
        let mut e = asking();
        let responder = &mut e.status.as_mut().unwrap().responders.as_mut().unwrap()[0];
        responder.http = Some(HttpEndpoint { port: 80, path: None, allow_host_network: None });
        let answer_by = |e: &Evacuation| question(e, "self", ReviewAction::Ask, at(500)).unwrap().answer_by;
        assert_eq!(answer_by(&e), Some(at(560).into()));
        e.status.as_mut().unwrap().responders.as_mut().unwrap()[0].asked_time = Some(at(490).into());
        assert_eq!(answer_by(&e), Some(at(550).into()), "asked again");
        e.status.as_mut().unwrap().responders.as_mut().unwrap()[0].asked_time = Some(at(400).into());
        assert_eq!(answer_by(&e), Some(at(510).into()), "a new leader tries once more");
    }
}
