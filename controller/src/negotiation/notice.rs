//! Transitions of an Evacuation that are worth an Event.

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, BlockedReason, ConditionType, DeadlineAction, EvacuatedReason, Evacuation, EvacuationStatus,
    FailedReason, MAX_RESPONDERS, RecordedRequester, RequesterKey, ResponderState, ResponderStatus,
    from_condition_time,
};
use evacuation_protocol::{NODE_UNREACHABLE, budget_blocked_since, deleted_despite};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::cluster::Notice;

/// A transition of an Evacuation. Its name is the reason of the Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    Joined,
    Left,
    Asked,
    Accepted,
    Delayed,
    Refused,
    /// A responder gave no answer in time.
    Silent,
    /// An endpoint gave no valid answer in time: its replies did not count.
    NoValidAnswer,
    /// No question reached an endpoint in time.
    Unreachable,
    /// A deadline skipped a responder.
    Interrupted,
    /// A responder could not be asked.
    Skipped,
    Evicting,
    UnreadableResponders,
    /// More responders are registered than are asked.
    RespondersLeftOut,
    EvictionBlocked,
    Deleted,
    Evicted,
    /// The pod is gone, neither evicted nor deleted by the controller.
    Evacuated,
    /// The same, although a responder had refused or was being asked.
    DeletedDespiteAnswer,
    Canceled,
    /// A rehearsal is over.
    Rehearsed,
    Failed,
}

impl Transition {
    /// Returns the reason of the Event.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Joined => "Joined",
            Self::Left => "Left",
            Self::Asked => "Asked",
            Self::Accepted => "Accepted",
            Self::Delayed => "Delayed",
            Self::Refused => "Refused",
            Self::Silent => "Silent",
            Self::NoValidAnswer => "NoValidAnswer",
            Self::Unreachable => "Unreachable",
            Self::Interrupted => "Interrupted",
            Self::Skipped => "Skipped",
            Self::Evicting => "Evicting",
            Self::UnreadableResponders => "UnreadableResponders",
            Self::RespondersLeftOut => "RespondersLeftOut",
            Self::EvictionBlocked => "EvictionBlocked",
            Self::Deleted => "Deleted",
            Self::Evicted => "Evicted",
            Self::Evacuated => "Evacuated",
            Self::DeletedDespiteAnswer => "DeletedDespiteAnswer",
            Self::Canceled => "Canceled",
            Self::Rehearsed => "Rehearsed",
            Self::Failed => "Failed",
        }
    }

    fn is_warning(self) -> bool {
        matches!(
            self,
            Self::Refused
                | Self::Silent
                | Self::NoValidAnswer
                | Self::Unreachable
                | Self::DeletedDespiteAnswer
                | Self::Interrupted
                | Self::UnreadableResponders
                | Self::RespondersLeftOut
                | Self::EvictionBlocked
                | Self::Failed
        )
    }

    /// Returns the Event of the transition. The start of the eviction has none, because its end or its
    /// blockage tells more and follows at once.
    pub(super) fn notice(self, note: String) -> Option<Notice> {
        match self {
            Self::Evicting => None,
            Self::Asked | Self::Accepted | Self::Delayed => Some(Notice::progress(self.as_str(), note)),
            _ if self.is_warning() => Some(Notice::warning(self.as_str(), note)),
            _ => Some(Notice::normal(self.as_str(), note)),
        }
        .map(|notice| if self.is_end() { notice.ending() } else { notice })
    }

    fn is_end(self) -> bool {
        matches!(
            self,
            Self::Deleted
                | Self::Evicted
                | Self::Evacuated
                | Self::DeletedDespiteAnswer
                | Self::Canceled
                | Self::Rehearsed
                | Self::Failed
        )
    }
}

/// Maximum age of an Evacuation whose first state causes Events, in seconds. A process that starts publishes
/// none of older ones.
const NEW_SECONDS: i64 = 60;

/// Returns the transitions up to the first known state of an Evacuation. The server activates the first
/// responder when it creates the Evacuation.
pub(super) fn first_transitions(new: &Evacuation, now: DateTime<Utc>) -> Vec<(Transition, String)> {
    let created = new.metadata.creation_timestamp.as_ref().map(from_condition_time);
    if created.is_none_or(|created| now.signed_duration_since(created).num_seconds() > NEW_SECONDS) {
        return Vec::new();
    }
    transitions(&Evacuation { status: None, ..new.clone() }, new)
}

/// Returns the transitions between two states of an Evacuation, each with its note for people.
pub(super) fn transitions(old: &Evacuation, new: &Evacuation) -> Vec<(Transition, String)> {
    let empty = EvacuationStatus::default();
    let old = old.status.as_ref().unwrap_or(&empty);
    let after = new;
    let Some(new) = new.status.as_ref() else {
        return Vec::new();
    };
    let mut found = requester_notices(old, new);
    for responder in new.responders.iter().flatten() {
        let before = old.responders.iter().flatten().find(|known| known.name == responder.name);
        found.extend(responder_notice(before, responder, forced(new)));
    }
    found.extend(registration_notice(old, new));
    found.extend(eviction_notice(old, new));
    let patience = after.spec.requesters.iter().filter_map(|entry| entry.budget_patience_seconds).min();
    found.extend(blocked_notice(old, new, patience));
    found.extend(end_notice(old, new, deleted_despite(after)));
    found
}

/// Returns the transition of an Evacuation for which more responders are registered than are asked.
fn registration_notice(old: &EvacuationStatus, new: &EvacuationStatus) -> Option<(Transition, String)> {
    let left_out = &new.registration.as_ref().filter(|_| old.registration.is_none())?.left_out;
    let note = format!(
        "more than {MAX_RESPONDERS} responders are registered for the pod; these of the lowest priority are not asked: {}",
        left_out.join(", ")
    );
    (!left_out.is_empty()).then_some((Transition::RespondersLeftOut, note))
}

/// Returns true if a deadline that skips the responders was reached.
fn forced(status: &EvacuationStatus) -> bool {
    let deadlines = status.policy.iter().flat_map(|policy| &policy.deadlines);
    deadlines.filter(|deadline| deadline.action != DeadlineAction::GiveUp).any(|deadline| deadline.reached)
}

fn responder_notice(
    before: Option<&ResponderStatus>,
    after: &ResponderStatus,
    forced: bool,
) -> Option<(Transition, String)> {
    let name = &after.name;
    let state = before.map_or(ResponderState::Inactive, |before| before.state);
    let answered =
        after.answer_time.is_some() && before.and_then(|before| before.answer_time) != after.answer_time;
    if answered && let Some(answer) = after.answer {
        return Some(answer_notice(name, answer, after));
    }
    if state == after.state {
        return None;
    }
    match after.state {
        ResponderState::Active => {
            let note = format!("responder {name} was asked; it has {} s to answer", after.timeout_seconds);
            Some((Transition::Asked, note))
        }
        ResponderState::Interrupted
            if state == ResponderState::Active && after.reason.as_deref() != Some(NODE_UNREACHABLE) =>
        {
            let why = after.message.as_deref().unwrap_or("it gave no valid answer in time");
            let is_invalid = before.is_some_and(|known| known.answer.is_none() && known.message.is_some());
            let is_unreachable = after.asked_time.is_none() && after.unreachable_time.is_some();
            let transition = match (forced, is_unreachable, is_invalid) {
                (true, ..) => Transition::Interrupted,
                (false, true, _) => Transition::Unreachable,
                (false, false, true) => Transition::NoValidAnswer,
                (false, false, false) => Transition::Silent,
            };
            Some((transition, format!("responder {name} was passed over: {why}")))
        }
        ResponderState::Interrupted => {
            let why = after.message.as_deref().unwrap_or("it cannot be asked");
            Some((Transition::Skipped, format!("responder {name} was not asked: {why}")))
        }
        ResponderState::Inactive | ResponderState::Canceled | ResponderState::Completed => None,
    }
}

fn answer_notice(name: &str, answer: Answer, responder: &ResponderStatus) -> (Transition, String) {
    let said: Vec<&str> =
        [&responder.reason, &responder.message].into_iter().flatten().map(String::as_str).collect();
    let said = if said.is_empty() { String::new() } else { format!(" ({})", said.join(": ")) };
    match answer {
        Answer::Accept => (Transition::Accepted, format!("responder {name} accepted{said}")),
        Answer::Delay => (Transition::Delayed, format!("responder {name} was granted a delay{said}")),
        Answer::Refuse => {
            let again = if responder.retry_time.is_some() { "; it will be asked again" } else { "" };
            (Transition::Refused, format!("responder {name} refused{said}{again}"))
        }
    }
}

fn eviction_notice(old: &EvacuationStatus, new: &EvacuationStatus) -> Option<(Transition, String)> {
    let started =
        |status: &EvacuationStatus| status.eviction.as_ref().is_some_and(|e| e.in_flight || e.attempts > 0);
    (started(new) && !started(old))
        .then(|| (Transition::Evicting, "every responder is done: the pod is being told to go".to_owned()))
}

/// Returns the start of a block. `patience` is the time in seconds after which a deletion that counts passes
/// its budgets.
fn blocked_notice(
    old: &EvacuationStatus,
    new: &EvacuationStatus,
    patience: Option<i64>,
) -> Option<(Transition, String)> {
    let now = new.true_condition(ConditionType::Blocked)?;
    if old.true_condition(ConditionType::Blocked).is_some_and(|before| before.reason == now.reason) {
        return None;
    }
    let transition = match new.reason() {
        // The usual course: every pod of the budget but a few begins so.
        Some(BlockedReason::AwaitingTurn) => return None,
        Some(BlockedReason::UnreadableResponders) => Transition::UnreadableResponders,
        _ => Transition::EvictionBlocked,
    };
    let end = patience.filter(|_| budget_blocked_since(new).is_some());
    let end = end.map(|seconds| format!("; the deletion that waits for it passes after {seconds} s"));
    Some((transition, format!("{}: {}{}", now.reason, now.message, end.unwrap_or_default())))
}

/// Returns the end. `despite` is the responder whose answer was passed over.
fn end_notice(
    old: &EvacuationStatus,
    new: &EvacuationStatus,
    despite: Option<&ResponderStatus>,
) -> Vec<(Transition, String)> {
    if old.is_true(ConditionType::Finished) || !new.is_true(ConditionType::Finished) {
        return Vec::new();
    }
    let note = |outcome: &str, end: &Condition| match end.message.as_str() {
        "" => format!("{outcome} ({})", end.reason),
        message if message == outcome => format!("{outcome} ({})", end.reason),
        message => format!("{outcome} ({}: {message})", end.reason),
    };
    if let Some(evacuated) = new.true_condition(ConditionType::Evacuated) {
        let transition = match new.reason() {
            Some(EvacuatedReason::Deleted) => Transition::Deleted,
            Some(EvacuatedReason::Evicted) => Transition::Evicted,
            _ => Transition::Evacuated,
        };
        if let Some(responder) = despite {
            let name = &responder.name;
            let state = if responder.answer.is_some() { "had refused" } else { "was being asked" };
            let note = format!("the pod went without the controller, although responder {name} {state}");
            return vec![(Transition::DeletedDespiteAnswer, note)];
        }
        return vec![(transition, note("the pod is gone", evacuated))];
    }
    let Some(failed) = new.true_condition(ConditionType::Failed) else {
        return Vec::new();
    };
    let transition = match new.reason() {
        Some(FailedReason::Canceled) => Transition::Canceled,
        Some(FailedReason::Rehearsed) => Transition::Rehearsed,
        _ => Transition::Failed,
    };
    vec![(transition, note("the pod is left alone", failed))]
}

/// Returns true when the entry of that key is live.
fn live(status: &EvacuationStatus, key: RequesterKey<'_>) -> bool {
    status.requesters.iter().any(|known| known.key() == key && known.left_time.is_none())
}

/// Returns the users who joined or left since. The requesters of a new Evacuation are not news.
fn requester_notices(old: &EvacuationStatus, new: &EvacuationStatus) -> Vec<(Transition, String)> {
    let notice = |known: &RecordedRequester| match (live(old, known.key()), live(new, known.key())) {
        (false, true) if !old.requesters.is_empty() => {
            Some((Transition::Joined, format!("user {} joined as {}", known.user, known.name)))
        }
        (true, false) => Some((Transition::Left, format!("requester {} left", known.key()))),
        _ => None,
    };
    new.requesters.iter().filter_map(notice).collect()
}

#[cfg(test)]
mod tests {
    use evacuation_api::Requester;
    use serde_json::{Value, json};

    use super::*;

    fn evacuation(status: &Value) -> Evacuation {
        serde_json::from_value(json!({"spec": {"target": {"pod": {"name": "p"}}}, "status": status})).unwrap()
    }

    fn responder(state: &str, more: &Value) -> Value {
        let mut all = json!({"name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 9, "state": state});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"responders": [all]})
    }

    fn conditions(all: &[(&str, &str, &str)]) -> Value {
        let all: Vec<Value> = all
            .iter()
            .map(|(kind, reason, message)| {
                json!({"type": kind, "status": "True", "reason": reason, "message": message,
                       "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        json!({"conditions": all})
    }

    #[test]
    fn the_reference_explains_every_event() {
        let page = include_str!("../../../docs/reference/running.md");
        let arms = include_str!("notice.rs").lines().filter_map(|line| line.trim().split_once(" => \""));
        let reasons: Vec<&str> = arms.filter_map(|(_, rest)| rest.strip_suffix("\",")).collect();
        assert!(reasons.contains(&Transition::Rehearsed.as_str()), "{reasons:?}");
        // The start of an eviction has no Event.
        for reason in reasons.into_iter().filter(|reason| *reason != Transition::Evicting.as_str()) {
            assert!(page.contains(&format!("`{reason}`")), "{reason}");
        }
    }

    #[test]
    fn who_joins_and_who_leaves_has_an_event_and_the_first_requester_has_none() {
        let recorded = |all: &[(&str, bool)]| {
            let row = |(owner, left): &(&str, bool)| {
                let time = "2026-01-01T00:00:00Z";
                let mut row = json!({"owner": owner, "name": "a.b/c", "user": owner, "time": time});
                if *left {
                    row["leftTime"] = json!("2026-01-01T00:01:00Z");
                }
                row
            };
            evacuation(&json!({"requesters": all.iter().map(row).collect::<Vec<_>>()}))
        };
        let said = |old: &[(&str, bool)], new: &[(&str, bool)]| {
            let found = transitions(&recorded(old), &recorded(new));
            found.into_iter().map(|(t, note)| format!("{}: {note}", t.as_str())).collect::<Vec<_>>()
        };
        assert_eq!(said(&[], &[("ann", false)]), [""; 0]);
        let joined = said(&[("ann", false)], &[("ann", false), ("bob", false)]);
        assert_eq!(joined, ["Joined: user bob joined as a.b/c"]);
        let left = said(&[("ann", false), ("bob", false)], &[("bob", false), ("ann", true)]);
        assert_eq!(left, ["Left: requester a.b/c of ann left"]);
        let again = said(&[("bob", false), ("ann", true)], &[("bob", false), ("ann", false)]);
        assert_eq!(again, ["Joined: user ann joined as a.b/c"]);
    }

    #[test]
    fn a_pod_that_a_budget_holds_up_costs_two_notices_and_any_other_one() {
        let blocked = conditions(&[("Blocked", "BudgetExhausted", "db allows none")]);
        let gone = conditions(&[("Evacuated", "Evicted", ""), ("Finished", "Evicted", "")]);
        let evicting = json!({"eviction": {"attempts": 1, "inFlight": true}});
        let reasons = |states: &[&Value]| {
            let mut found = Vec::new();
            for pair in states.windows(2) {
                let all = transitions(&evacuation(pair[0]), &evacuation(pair[1]));
                found.extend(all.into_iter().filter_map(|(transition, note)| transition.notice(note)));
            }
            found.iter().map(|notice| notice.reason).collect::<Vec<_>>()
        };
        assert_eq!(reasons(&[&json!({}), &evicting, &blocked, &gone]), ["EvictionBlocked", "Evicted"]);
        assert_eq!(reasons(&[&json!({}), &evicting, &gone]), ["Evicted"]);
    }

    type Row = (Value, Value, &'static [(&'static str, &'static str)]);

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table of every transition")]
    fn every_transition_has_its_notice() {
        let time = "2026-01-01T00:00:01.000000Z";
        let answered = |answer: &str, more: &Value| {
            let mut all = json!({"answer": answer, "answerTime": time});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            responder("Active", &all)
        };
        let active = responder("Active", &json!({}));
        let mut forced = responder("Interrupted", &json!({"message": "the deadline was reached"}));
        forced["policy"] = json!({"onRefusal": "Wait", "deadlines": [
            {"requester": "a.b/c", "time": time, "action": "Evict", "reached": true}
        ]});
        let table: Vec<Row> = vec![
            (json!({}), active.clone(), &[("Asked", "responder self was asked; it has 60 s to answer")]),
            (active.clone(), active.clone(), &[]),
            (active.clone(), answered("Accept", &json!({})), &[("Accepted", "responder self accepted")]),
            (
                active.clone(),
                answered("Delay", &json!({"delayUntil": "2026-01-01T00:01:00Z", "message": "copying"})),
                &[("Delayed", "responder self was granted a delay (copying)")],
            ),
            (
                answered("Delay", &json!({"delayUntil": "2026-01-01T00:01:00Z", "message": "copying"})),
                responder(
                    "Active",
                    &json!({"answer": "Delay", "answerTime": "2026-01-01T00:00:08.000000Z",
                    "delayUntil": "2026-01-01T00:01:08Z", "message": "copying"}),
                ),
                &[("Delayed", "responder self was granted a delay (copying)")],
            ),
            (
                active.clone(),
                answered("Refuse", &json!({"retryTime": "2026-01-01T00:01:00Z"})),
                &[("Refused", "responder self refused; it will be asked again")],
            ),
            (
                active.clone(),
                answered("Refuse", &json!({"reason": "Busy", "message": "in a build"})),
                &[("Refused", "responder self refused (Busy: in a build)")],
            ),
            (
                answered("Accept", &json!({})),
                responder("Completed", &json!({"answer": "Accept", "answerTime": time})),
                &[],
            ),
            (
                responder("Active", &json!({"unreachableTime": "2026-01-01T00:00:00Z"})),
                responder(
                    "Interrupted",
                    &json!({"unreachableTime": "2026-01-01T00:00:00Z", "message": "refused"}),
                ),
                &[("Unreachable", "responder self was passed over: refused")],
            ),
            (
                active,
                responder("Interrupted", &json!({})),
                &[("Silent", "responder self was passed over: it gave no valid answer in time")],
            ),
            (
                responder("Active", &json!({})),
                forced,
                &[("Interrupted", "responder self was passed over: the deadline was reached")],
            ),
            (
                json!({}),
                responder("Interrupted", &json!({"message": "no container runs"})),
                &[("Skipped", "responder self was not asked: no container runs")],
            ),
            (
                json!({}),
                json!({"eviction": {"attempts": 0, "inFlight": true}}),
                &[("Evicting", "every responder is done: the pod is being told to go")],
            ),
            (
                json!({"eviction": {"attempts": 1, "inFlight": false}}),
                json!({"eviction": {"attempts": 1, "inFlight": true}}),
                &[],
            ),
            (
                json!({}),
                conditions(&[("Blocked", "BudgetExhausted", "db allows none")]),
                &[("EvictionBlocked", "BudgetExhausted: db allows none")],
            ),
            (
                conditions(&[("Blocked", "BudgetExhausted", "db allows none")]),
                conditions(&[("Blocked", "BudgetExhausted", "db still allows none")]),
                &[],
            ),
            (
                json!({}),
                conditions(&[("Evacuated", "Evicted", ""), ("Finished", "Evicted", "")]),
                &[("Evicted", "the pod is gone (Evicted)")],
            ),
            (
                json!({}),
                conditions(&[("Evacuated", "Evicted", "the pod is gone"), ("Finished", "Evicted", "")]),
                &[("Evicted", "the pod is gone (Evicted)")],
            ),
            (
                json!({}),
                conditions(&[("Failed", "Canceled", "withdrawn"), ("Finished", "Canceled", "")]),
                &[("Canceled", "the pod is left alone (Canceled: withdrawn)")],
            ),
            (
                json!({}),
                conditions(&[("Failed", "Refused", "self refused"), ("Finished", "Refused", "")]),
                &[("Failed", "the pod is left alone (Refused: self refused)")],
            ),
        ];
        for (old, new, expected) in table {
            let found = transitions(&evacuation(&old), &evacuation(&new));
            let found: Vec<(&str, &str)> =
                found.iter().map(|(transition, note)| (transition.as_str(), note.as_str())).collect();
            assert_eq!(found, expected, "{new}");
        }
    }

    #[test]
    fn the_block_of_a_counted_deletion_says_for_how_long_a_budget_can_hold_it() {
        let said = |patience: Option<i64>, by_budget: bool| {
            let mut status = conditions(&[("Blocked", "BudgetExhausted", "db allows none")]);
            if by_budget {
                status["eviction"] = json!({"budgetBlockedTime": "2026-01-01T00:00:00Z"});
            }
            let mut blocked = evacuation(&status);
            let entry = Requester { budget_patience_seconds: patience, ..Requester::named("a.b/c") };
            blocked.spec.requesters = vec![entry];
            transitions(&evacuation(&json!({})), &blocked)
                .into_iter()
                .map(|(_, note)| note)
                .collect::<String>()
        };
        let plain = "BudgetExhausted: db allows none";
        let until = format!("{plain}; the deletion that waits for it passes after 1800 s");
        assert_eq!(said(Some(1800), true), until);
        assert_eq!(said(Some(1800), false), plain);
        assert_eq!(said(None, true), plain);
    }
}
