//! Pods that are left to the callers who delete them, once every responder is done.
//!
//! The gateway lets a deletion pass once every responder is done. A caller whose pod was evicted before its
//! next try would get an error for a deletion that took place.

use chrono::{DateTime, Utc};
use evacuation_api::{
    ConditionType, DeadlineAction, Evacuation, EvictionStatus, Policy, RefusalPolicy, Requester,
};

use super::step::Step;
use crate::{
    policy::{forced, has_expired, is_awake},
    status::is_finished,
    time::{after, stamp},
};

/// Returns the time until which the controller leaves the pod to callers that delete it themselves. It is
/// recorded once, and nothing moves it.
///
/// `None` when the pod is not left to them: a responder is not done, or the controller evicts it.
pub fn left_to_callers_until(evacuation: &Evacuation) -> Option<DateTime<Utc>> {
    let status = evacuation.status.as_ref().filter(|status| !is_finished(status))?;
    let eviction = status.eviction.as_ref().filter(|eviction| is_untried(eviction))?;
    let until = eviction.next_attempt_time?.0;
    callers_seconds(&evacuation.spec.requesters, status.policy.as_ref()?)?;
    (!status.is_true(ConditionType::Blocked)).then_some(until)
}

impl Step<'_> {
    /// Returns true while the pod is left to its callers. Records the end of that time when it begins.
    pub(super) fn is_left_to_callers(&mut self) -> bool {
        let eviction = self.next.eviction.clone().unwrap_or_default();
        let requesters = &self.evacuation.spec.requesters;
        let seconds = callers_seconds(requesters, &self.policy).filter(|_| is_untried(&eviction));
        let Some(seconds) = seconds else { return false };
        let until = match eviction.next_attempt_time {
            Some(recorded) => recorded,
            None => stamp(after(self.now, seconds)),
        };
        let begins = eviction.next_attempt_time.is_none();
        if until.0 <= self.now || (begins && !outlasts(requesters, &self.policy, until.0)) {
            return false;
        }
        self.next.eviction.get_or_insert_default().next_attempt_time = Some(until);
        self.wake(until.0);
        true
    }

    /// Ends the time of the callers when the pod terminates: a caller has deleted it, and nobody evicts it.
    pub(super) fn end_callers_time(&mut self) {
        if let Some(eviction) = self.next.eviction.as_mut().filter(|eviction| is_untried(eviction)) {
            eviction.next_attempt_time = None;
        }
    }
}

/// Returns true before the first attempt. `nextAttemptTime` then is the end of the callers' time.
fn is_untried(eviction: &EvictionStatus) -> bool {
    eviction.attempts == 0
}

/// Returns the time that the callers behind the live entries have to delete the pod themselves, in seconds:
/// that of the slowest. `None` when the controller does not wait for them: an entry stands for no such
/// caller, a refusal is overridden, or a deadline was reached that evicts or deletes.
fn callers_seconds(requesters: &[Requester], policy: &Policy) -> Option<i64> {
    if policy.on_refusal == RefusalPolicy::Override || forced(policy).is_some() {
        return None;
    }
    let all: Option<Vec<i64>> =
        live(requesters, policy).map(|entry| entry.caller_deletes_within_seconds).collect();
    all?.into_iter().max()
}

/// Returns true when an entry lives until after that time. A caller without such an entry has not come back
/// for long, and the Evacuation would give up although every responder is done.
fn outlasts(requesters: &[Requester], policy: &Policy, until: DateTime<Utc>) -> bool {
    let ends_before = |entry: &Requester| {
        let mut deadlines = policy.deadlines.iter().filter(|deadline| deadline.key() == entry.key());
        deadlines.any(|deadline| deadline.action == DeadlineAction::GiveUp && deadline.time.0 <= until)
    };
    live(requesters, policy).any(|entry| !ends_before(entry))
}

/// Returns the entries that want the pod moved now.
fn live<'a>(requesters: &'a [Requester], policy: &'a Policy) -> impl Iterator<Item = &'a Requester> {
    requesters.iter().filter(|entry| !has_expired(policy, entry.key()) && is_awake(entry, policy))
}

#[cfg(test)]
mod tests {
    use evacuation_api::{Answer, EvacuationStatus};

    use super::*;
    use crate::{
        Act, Attempt, Editor, LivePod, PodView, World, apply_requester_edit, check_requester_edit,
        check_status_update, decide,
        testing::{RUNNING, at, evacuation_for, evacuation_of_app, requester, requester_of, world},
    };

    /// Alice's deletion through the gateway at 0. Her entry lives until `end`.
    fn deletion(end: i64) -> Requester {
        Requester {
            on_refusal: Some(RefusalPolicy::GiveUp),
            deadline: Some(at(end).into()),
            at_deadline: Some(DeadlineAction::GiveUp),
            caller_deletes_within_seconds: Some(15),
            ..requester("a.b/deletion")
        }
    }

    /// Returns the status that is written; the server takes it as it is.
    #[track_caller]
    fn written(evacuation: &Evacuation, world: &World, seconds: i64) -> EvacuationStatus {
        let decision = decide(evacuation, world, at(seconds));
        let [Act::WriteStatus(status)] = &decision.acts[..] else { panic!("no write: {decision:?}") };
        let result = check_status_update(evacuation, (**status).clone(), at(seconds));
        assert_eq!(result.as_ref(), Ok(&**status), "the server makes the same of it");
        result.unwrap()
    }

    /// Writes what is decided at that time. Returns true when the attempt to evict is recorded.
    #[track_caller]
    fn evicts(evacuation: &mut Evacuation, seconds: i64) -> bool {
        evacuation.status = Some(written(evacuation, &world(), seconds));
        in_flight(evacuation)
    }

    fn in_flight(evacuation: &Evacuation) -> bool {
        let eviction = evacuation.status.as_ref().and_then(|status| status.eviction.as_ref());
        eviction.is_some_and(|eviction| eviction.in_flight)
    }

    /// The caller comes back, or does not.
    #[test]
    fn a_pod_whose_responders_are_done_is_left_to_its_caller_for_a_time_and_then_evicted() {
        let mut unanswerable = evacuation_for(vec![deletion(90)]);
        let mut accepted = evacuation_of_app(vec![deletion(90)]);
        let app = &mut accepted.status.as_mut().unwrap().responders.as_mut().unwrap()[0];
        (app.answer, app.answer_time) = (Some(Answer::Accept), Some(at(1).into()));
        for e in [&mut unanswerable, &mut accepted] {
            assert_eq!(left_to_callers_until(e), None);
            assert!(!evicts(e, 1), "in one write with the last state of the responders");
            assert_eq!(left_to_callers_until(e), Some(at(16)));
            let rests = decide(e, &world(), at(15));
            assert_eq!((rests.acts, rests.wake_at), (vec![], Some(at(16))));
            assert!(evicts(e, 16));
            assert_eq!(left_to_callers_until(e), None);
            let recorded = World { attempt: Attempt::Recorded, ..world() };
            assert_eq!(decide(e, &recorded, at(16)).acts, [Act::Evict { grace_period_seconds: None }]);
        }
    }

    #[test]
    fn the_time_of_the_callers_ends_when_the_pod_terminates() {
        let mut e = evacuation_for(vec![deletion(90)]);
        assert!(!evicts(&mut e, 1));
        let terminating = LivePod { terminating_until: Some(at(40)), ..RUNNING };
        let deleted = World { pod: PodView::Live(terminating), ..world() };
        e.status = Some(written(&e, &deleted, 3));
        assert_eq!(left_to_callers_until(&e), None);
        assert!(decide(&e, &deleted, at(16)).acts.is_empty() && !in_flight(&e));
    }

    #[test]
    fn a_retry_that_renews_its_entry_does_not_move_the_end() {
        let mut e = evacuation_for(vec![deletion(90)]);
        assert!(!evicts(&mut e, 1));
        edit(&mut e, vec![deletion(100)], 10);
        assert_eq!(left_to_callers_until(&e), Some(at(16)));
        assert!(evicts(&mut e, 16));
    }

    /// Changes the entries as the server does.
    fn edit(evacuation: &mut Evacuation, requesters: Vec<Requester>, seconds: i64) {
        let mut spec = evacuation.spec.clone();
        spec.requesters = requesters;
        let editor = Editor { user: "gateway", may_override: true, guarded: true };
        let edit = check_requester_edit(evacuation, &spec, editor, at(seconds)).unwrap();
        let status = apply_requester_edit(evacuation, &spec, &edit, "gateway", &[], at(seconds));
        (evacuation.spec, evacuation.status) = (spec, Some(status));
        evacuation.metadata.generation = evacuation.metadata.generation.map(|generation| generation + 1);
    }

    #[test]
    fn a_pod_that_somebody_else_wants_or_that_must_go_is_evicted_at_once() {
        let with = |change: fn(&mut Requester)| {
            let mut entry = deletion(90);
            change(&mut entry);
            vec![entry]
        };
        let slow =
            Requester { owner: "bob".to_owned(), caller_deletes_within_seconds: Some(30), ..deletion(90) };
        let table = [
            ("alone", vec![deletion(90)], Some(16)),
            ("two callers: the slower one counts", vec![deletion(90), slow], Some(31)),
            ("a drain", vec![deletion(90), requester_of("bob", "a.b/drain")], None),
            ("no caller that comes back", with(|r| r.caller_deletes_within_seconds = None), None),
            ("a refusal is overridden", with(|r| r.on_refusal = Some(RefusalPolicy::Override)), None),
            ("the entry would expire first", vec![deletion(16)], None),
            ("no time", with(|r| r.caller_deletes_within_seconds = Some(0)), None),
        ];
        for (what, requesters, until) in table {
            let mut e = evacuation_for(requesters);
            assert_eq!(evicts(&mut e, 1), until.is_none(), "{what}");
            assert_eq!(left_to_callers_until(&e), until.map(at), "{what}");
        }
    }

    #[test]
    fn whoever_joins_while_the_pod_is_left_to_its_caller_has_it_evicted_at_once() {
        let mut e = evacuation_for(vec![deletion(90)]);
        assert!(!evicts(&mut e, 1));
        edit(&mut e, vec![deletion(90), requester_of("bob", "a.b/drain")], 2);
        assert_eq!(left_to_callers_until(&e), None);
        assert!(evicts(&mut e, 2));
    }

    #[test]
    fn a_deadline_that_evicts_does_not_wait_for_a_caller() {
        let soon = Requester { at_deadline: Some(DeadlineAction::Evict), ..deletion(5) };
        let mut e = evacuation_for(vec![soon]);
        assert!(!evicts(&mut e, 1));
        assert_eq!(decide(&e, &world(), at(2)).wake_at, Some(at(5)));
        assert!(evicts(&mut e, 5));
    }
}
