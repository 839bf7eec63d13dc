//! Situation of a pod between its ReplicaSet and the Evacuations that target it.

use chrono::{DateTime, Utc};
use evacuation_api::{Answer, ConditionType, Evacuation, REPLACEMENT_RESPONDER, ResponderState};
use k8s_openapi::api::core::v1::Pod;

use super::record::Record;
use crate::{builtin::part::Part, cluster::is_finished};

/// Situation of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Situation<'a> {
    /// Nothing is to be done.
    Nothing,
    /// The responder refused. Nothing is to be done before that time.
    Refused(DateTime<Utc>),
    /// The responder is asked. The pod is to be released.
    Asked(Part<'a>),
    /// The pod is released and will be evicted.
    Leaving(Record),
    /// The pod is released, and its replacement is not ready yet.
    Replacing(Part<'a>, Record),
    /// The pod is released and stays. It is to be given back.
    GiveBack(Record),
    /// The pod was given back, and its ReplicaSet has not adopted it yet.
    Returning(Record),
}

/// Returns the situation of a pod. `evacuations` are those that target the pod, and the one that its record
/// names.
pub(super) fn situation<'a>(
    pod: &Pod,
    evacuations: impl IntoIterator<Item = &'a Evacuation>,
    now: DateTime<Utc>,
) -> Situation<'a> {
    if pod.metadata.deletion_timestamp.is_some() {
        return Situation::Nothing;
    }
    let uid = pod.metadata.uid.as_deref();
    let mut parts = evacuations
        .into_iter()
        .filter_map(|evacuation| Part::of(evacuation, REPLACEMENT_RESPONDER))
        .filter(|part| part.targets(uid));
    match Record::of(pod) {
        Some(record) if record.returning.is_some() => Situation::Returning(record),
        Some(record) => match parts.find(|part| part.uid() == record.evacuation.uid) {
            Some(part) => released(pod, part, record),
            None => Situation::GiveBack(record),
        },
        None => parts.find(Part::is_active).map_or(Situation::Nothing, |part| asked(part, now)),
    }
}

fn asked(part: Part<'_>, now: DateTime<Utc>) -> Situation<'_> {
    match (part.responder.answer, part.responder.retry_time) {
        (Some(Answer::Refuse), Some(time)) if now < time.0 => Situation::Refused(time.0),
        (Some(Answer::Refuse), None) | (Some(Answer::Accept), _) => Situation::Nothing,
        // The responder has not answered yet, or the time to ask again has come.
        _ => Situation::Asked(part),
    }
}

fn released<'a>(pod: &Pod, part: Part<'a>, record: Record) -> Situation<'a> {
    if is_finished(part.evacuation) {
        // The pod of an Evacuation that is Evacuated is gone, unless it ended in place.
        let going = is_evacuated(part.evacuation) && !has_ended(pod);
        return if going { Situation::Nothing } else { Situation::GiveBack(record) };
    }
    let (state, answer) = (part.responder.state, part.responder.answer);
    // Another attempt after a refusal names that refusal.
    let refused = answer == Some(Answer::Refuse) && record.after_refusal != part.responder.answer_time;
    match state {
        _ if refused => Situation::GiveBack(record),
        ResponderState::Active if answer != Some(Answer::Accept) => Situation::Replacing(part, record),
        // The responder accepted or was interrupted. The pod still goes, and with its ReplicaSet if that goes
        // first.
        _ => Situation::Leaving(record),
    }
}

fn is_evacuated(evacuation: &Evacuation) -> bool {
    evacuation.status.as_ref().is_some_and(|status| status.is_true(ConditionType::Evacuated))
}

/// Returns true if a pod's phase is terminal.
pub(super) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use evacuation_api::RELEASED_ANNOTATION;
    use serde_json::{Value, json};

    use super::*;
    use crate::builtin::testing::{at, ended, evacuation, merge, time};

    fn pod(record: Option<&Value>, patch: &Value) -> Pod {
        let mut pod = json!({"metadata": {"name": "p", "uid": "p1"}});
        if let Some(patch) = record {
            let mut record = json!({"label": {"key": "k", "value": "v"}, "replicaSet": {"name": "r", "uid": "r1"},
                "evacuation": {"name": "e", "uid": "e-uid"}, "time": time(1)});
            merge(&mut record, patch);
            pod["metadata"]["annotations"] = json!({RELEASED_ANNOTATION: record.to_string()});
        }
        merge(&mut pod, patch);
        serde_json::from_value(pod).unwrap()
    }

    fn word(pod: &Pod, evacuations: &[Evacuation], now: i64) -> String {
        match situation(pod, evacuations, at(now)) {
            Situation::Nothing => "nothing".to_owned(),
            Situation::Refused(until) => format!("refused until {}", (until - at(0)).num_seconds()),
            Situation::Asked(part) => format!("asked by {}", part.name()),
            Situation::Replacing(part, _) => format!("replacing for {}", part.name()),
            Situation::Leaving(_) => "leaving".to_owned(),
            Situation::GiveBack(_) => "give back".to_owned(),
            Situation::Returning(_) => "returning".to_owned(),
        }
    }

    #[test]
    fn a_pod_is_released_when_asked_and_given_back_when_it_stays() {
        let asked = |patch: &Value| evacuation("e", REPLACEMENT_RESPONDER, patch);
        let over =
            |condition: &str| ended("e", REPLACEMENT_RESPONDER, condition, &json!({"state": "Canceled"}));
        let plain = || pod(None, &json!({}));
        let released = || pod(Some(&json!({})), &json!({}));
        let returning = || pod(Some(&json!({"returning": {}})), &json!({}));
        let again = || pod(Some(&json!({"afterRefusal": time(9)})), &json!({}));
        let refusal = json!({"answer": "Refuse", "answerTime": time(9), "retryTime": time(20)});
        let mut overridden = refusal.clone();
        overridden["state"] = json!("Completed");
        let table = vec![
            (plain(), vec![], "nothing"),
            (plain(), vec![asked(&json!({}))], "asked by e"),
            (plain(), vec![asked(&json!({"answer": "Delay"}))], "asked by e"),
            (plain(), vec![asked(&json!({"answer": "Accept"}))], "nothing"),
            (plain(), vec![asked(&json!({"state": "Inactive"}))], "nothing"),
            (plain(), vec![asked(&json!({"state": "Interrupted"}))], "nothing"),
            (plain(), vec![asked(&json!({"name": "a.b/other"}))], "nothing"),
            (plain(), vec![asked(&refusal)], "refused until 20"),
            (plain(), vec![asked(&json!({"answer": "Refuse"}))], "nothing"),
            (plain(), vec![over("Failed")], "nothing"),
            (pod(None, &json!({"metadata": {"uid": "p2"}})), vec![asked(&json!({}))], "nothing"),
            (released(), vec![asked(&json!({}))], "replacing for e"),
            (released(), vec![asked(&json!({"answer": "Delay"}))], "replacing for e"),
            (released(), vec![asked(&json!({"answer": "Accept"}))], "leaving"),
            (released(), vec![asked(&json!({"state": "Completed", "answer": "Accept"}))], "leaving"),
            (released(), vec![asked(&json!({"state": "Interrupted"}))], "leaving"),
            (released(), vec![asked(&refusal)], "give back"),
            (released(), vec![asked(&overridden)], "give back"),
            (again(), vec![asked(&refusal)], "replacing for e"),
            (released(), vec![over("Failed")], "give back"),
            (released(), vec![over("Evacuated")], "nothing"),
            (
                pod(Some(&json!({})), &json!({"status": {"phase": "Failed"}})),
                vec![over("Evacuated")],
                "give back",
            ),
            (released(), vec![], "give back"),
            (released(), vec![evacuation("f", REPLACEMENT_RESPONDER, &json!({}))], "give back"),
            (returning(), vec![], "returning"),
            (returning(), vec![asked(&json!({}))], "returning"),
            (
                pod(Some(&json!({})), &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
                vec![over("Failed")],
                "nothing",
            ),
        ];
        for (pod, evacuations, expected) in table {
            assert_eq!(word(&pod, &evacuations, 10), expected, "{:?} {evacuations:?}", pod.metadata);
        }
        assert_eq!(word(&plain(), &[asked(&refusal)], 20), "asked by e", "the time to ask again has come");
    }
}
