//! What is worth an Event: the difference between two states of an Evacuation, or something that went wrong.

use evacuation_api::{
    Answer, ConditionType, DeadlineAction, Evacuation, EvacuationStatus, FailedReason, ResponderState,
    ResponderStatus, Timestamp,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::events::Notice;

/// What happened to an Evacuation between two states of it.
pub(crate) fn notices(old: &Evacuation, new: &Evacuation) -> Vec<Notice> {
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
    found.extend(eviction_notice(old, new));
    found.extend(blocked_notice(old, new));
    found.extend(end_notice(old, new));
    found
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
) -> Option<Notice> {
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
            Some(Notice::normal("Asked", note))
        }
        ResponderState::Interrupted if state == ResponderState::Active => {
            let why = after.message.as_deref().unwrap_or("it did not answer in time");
            Some(Notice::warning(
                if forced { "Interrupted" } else { "Silent" },
                format!("responder {name} was passed over: {why}"),
            ))
        }
        ResponderState::Interrupted => {
            let why = after.message.as_deref().unwrap_or("it cannot be asked");
            Some(Notice::normal("Skipped", format!("responder {name} was not asked: {why}")))
        }
        ResponderState::Inactive | ResponderState::Canceled | ResponderState::Completed => None,
    }
}

fn answer_notice(name: &str, answer: Answer, responder: &ResponderStatus) -> Notice {
    let said: Vec<&str> =
        [&responder.reason, &responder.message].into_iter().flatten().map(String::as_str).collect();
    let said = if said.is_empty() { String::new() } else { format!(" ({})", said.join(": ")) };
    let until = |time: Option<Timestamp>| time.map(|time| time.0.format("%H:%M:%S UTC").to_string());
    match answer {
        Answer::Accept => Notice::normal("Accepted", format!("responder {name} accepted{said}")),
        Answer::Delay => {
            let until = until(responder.delay_until).map_or(String::new(), |until| format!(" until {until}"));
            Notice::normal("Delayed", format!("responder {name} was granted a delay{until}{said}"))
        }
        Answer::Refuse => {
            let again = until(responder.retry_time)
                .map_or(String::new(), |time| format!("; to be asked again at {time}"));
            Notice::warning("Refused", format!("responder {name} refused{said}{again}"))
        }
    }
}

fn eviction_notice(old: &EvacuationStatus, new: &EvacuationStatus) -> Option<Notice> {
    let started =
        |status: &EvacuationStatus| status.eviction.as_ref().is_some_and(|e| e.in_flight || e.attempts > 0);
    (started(new) && !started(old)).then(|| {
        Notice::normal("Evicting", "every responder is done: the pod is being told to go".to_owned())
    })
}

fn blocked_notice(old: &EvacuationStatus, new: &EvacuationStatus) -> Option<Notice> {
    let blocked =
        |status: &EvacuationStatus| condition(status, ConditionType::Blocked).map(|c| c.reason.clone());
    let now = condition(new, ConditionType::Blocked)?;
    if blocked(old).as_ref() == Some(&now.reason) {
        return None;
    }
    let reason =
        if now.reason == "UnreadableResponders" { "UnreadableResponders" } else { "EvictionBlocked" };
    Some(Notice::warning(reason, format!("{}: {}", now.reason, now.message)))
}

fn end_notice(old: &EvacuationStatus, new: &EvacuationStatus) -> Vec<Notice> {
    if condition(old, ConditionType::Finished).is_some() || condition(new, ConditionType::Finished).is_none()
    {
        return Vec::new();
    }
    let said = |c: &Condition| {
        if c.message.is_empty() { c.reason.clone() } else { format!("{}: {}", c.reason, c.message) }
    };
    if let Some(evacuated) = condition(new, ConditionType::Evacuated) {
        let reason = match evacuated.reason.as_str() {
            "Deleted" => "Deleted",
            "Evicted" => "Evicted",
            _ => "Evacuated",
        };
        return vec![Notice::normal(reason, format!("the pod is gone ({})", said(evacuated)))];
    }
    let Some(failed) = condition(new, ConditionType::Failed) else {
        return Vec::new();
    };
    if failed.reason == FailedReason::Canceled.as_str() {
        return vec![Notice::normal("Canceled", format!("the pod is left alone ({})", said(failed)))];
    }
    vec![Notice::warning("Failed", format!("the pod is left alone ({})", said(failed)))]
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
                &[("Delayed", "responder self was granted a delay until 00:01:00 UTC (copying)")],
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
            let found = notices(&evacuation(&old), &evacuation(&new));
            let found: Vec<(&str, &str)> = found.iter().map(|n| (n.reason, n.note.as_str())).collect();
            assert_eq!(found, expected, "{new}");
        }
    }
}
