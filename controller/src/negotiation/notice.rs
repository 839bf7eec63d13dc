//! Transitions of an Evacuation that are worth an Event.

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, ConditionType, DeadlineAction, Evacuation, EvacuationStatus, FailedReason, MAX_RESPONDERS,
    ResponderState, ResponderStatus, from_condition_time,
};
use evacuation_protocol::NODE_UNREACHABLE;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::cluster::Notice;

/// A transition of an Evacuation. Its name is the reason of the Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    Asked,
    Accepted,
    Delayed,
    Refused,
    /// A responder did not answer in time.
    Silent,
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
    Canceled,
    Failed,
}

impl Transition {
    /// Returns the reason of the Event.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "Asked",
            Self::Accepted => "Accepted",
            Self::Delayed => "Delayed",
            Self::Refused => "Refused",
            Self::Silent => "Silent",
            Self::Interrupted => "Interrupted",
            Self::Skipped => "Skipped",
            Self::Evicting => "Evicting",
            Self::UnreadableResponders => "UnreadableResponders",
            Self::RespondersLeftOut => "RespondersLeftOut",
            Self::EvictionBlocked => "EvictionBlocked",
            Self::Deleted => "Deleted",
            Self::Evicted => "Evicted",
            Self::Evacuated => "Evacuated",
            Self::Canceled => "Canceled",
            Self::Failed => "Failed",
        }
    }

    fn is_warning(self) -> bool {
        matches!(
            self,
            Self::Refused
                | Self::Silent
                | Self::Interrupted
                | Self::UnreadableResponders
                | Self::RespondersLeftOut
                | Self::EvictionBlocked
                | Self::Failed
        )
    }

    /// Returns the Event of the transition.
    pub(super) fn notice(self, note: String) -> Notice {
        match self {
            Self::Accepted | Self::Delayed | Self::Evicting => Notice::progress(self.as_str(), note),
            _ if self.is_warning() => Notice::warning(self.as_str(), note),
            _ => Notice::normal(self.as_str(), note),
        }
    }
}

/// Maximum age of an Evacuation whose first state is worth Events, in seconds. A process that starts
/// publishes none of old ones.
const NEW_SECONDS: i64 = 60;

/// Returns the transitions up to the first state in which an Evacuation is seen: the server activates the
/// first responder when it creates the Evacuation.
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
    let Some(new) = new.status.as_ref() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for responder in new.responders.iter().flatten() {
        let before = old.responders.iter().flatten().find(|known| known.name == responder.name);
        found.extend(responder_notice(before, responder, forced(new)));
    }
    found.extend(registration_notice(old, new));
    found.extend(eviction_notice(old, new));
    found.extend(blocked_notice(old, new));
    found.extend(end_notice(old, new));
    found
}

/// The server found more responders than are asked, when it created the Evacuation.
fn registration_notice(old: &EvacuationStatus, new: &EvacuationStatus) -> Option<(Transition, String)> {
    let left_out = &new.registration.as_ref().filter(|_| old.registration.is_none())?.left_out;
    let note = format!(
        "more than {MAX_RESPONDERS} responders are registered for the pod; these of the lowest priority are not asked: {}",
        left_out.join(", ")
    );
    (!left_out.is_empty()).then_some((Transition::RespondersLeftOut, note))
}

/// Whether a deadline that skips the responders was reached.
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
            let why = after.message.as_deref().unwrap_or("it did not answer in time");
            Some((
                if forced { Transition::Interrupted } else { Transition::Silent },
                format!("responder {name} was passed over: {why}"),
            ))
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

fn blocked_notice(old: &EvacuationStatus, new: &EvacuationStatus) -> Option<(Transition, String)> {
    let blocked =
        |status: &EvacuationStatus| condition(status, ConditionType::Blocked).map(|c| c.reason.clone());
    let now = condition(new, ConditionType::Blocked)?;
    if blocked(old).as_ref() == Some(&now.reason) {
        return None;
    }
    let transition = if now.reason == Transition::UnreadableResponders.as_str() {
        Transition::UnreadableResponders
    } else {
        Transition::EvictionBlocked
    };
    Some((transition, format!("{}: {}", now.reason, now.message)))
}

fn end_notice(old: &EvacuationStatus, new: &EvacuationStatus) -> Vec<(Transition, String)> {
    if condition(old, ConditionType::Finished).is_some() || condition(new, ConditionType::Finished).is_none()
    {
        return Vec::new();
    }
    let note = |outcome: &str, end: &Condition| match end.message.as_str() {
        "" => format!("{outcome} ({})", end.reason),
        message if message == outcome => format!("{outcome} ({})", end.reason),
        message => format!("{outcome} ({}: {message})", end.reason),
    };
    if let Some(evacuated) = condition(new, ConditionType::Evacuated) {
        let transition = match evacuated.reason.as_str() {
            "Deleted" => Transition::Deleted,
            "Evicted" => Transition::Evicted,
            _ => Transition::Evacuated,
        };
        return vec![(transition, note("the pod is gone", evacuated))];
    }
    let Some(failed) = condition(new, ConditionType::Failed) else {
        return Vec::new();
    };
    if failed.reason == FailedReason::Canceled.as_str() {
        return vec![(Transition::Canceled, note("the pod is left alone", failed))];
    }
    vec![(Transition::Failed, note("the pod is left alone", failed))]
}

/// The condition of that type, where it is True.
fn condition(status: &EvacuationStatus, kind: ConditionType) -> Option<&Condition> {
    status.conditions.iter().find(|c| c.type_ == kind.as_str() && c.status == "True")
}

#[cfg(test)]
mod tests {
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
                active,
                responder("Interrupted", &json!({})),
                &[("Silent", "responder self was passed over: it did not answer in time")],
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
}
