use std::sync::Arc;

use evacuation_api::{Evacuation, REPLACEMENT_RESPONDER};
use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::{Value, json};

use super::*;
use crate::builtin::testing::{at, evacuation, merge, time};

fn record(patch: &Value) -> Record {
    let mut record = json!({"label": {"key": "k", "value": "v"}, "replicaSet": {"name": "r", "uid": "r1"},
        "evacuation": {"name": "e", "uid": "e-uid"}, "time": time(1)});
    merge(&mut record, patch);
    serde_json::from_value(record).unwrap()
}

/// The pod `p` with that record, and what `patch` says instead.
fn pod(record: &Record, patch: &Value) -> Pod {
    let annotations = json!({RELEASED_ANNOTATION: record.text(), REPLACEMENT_TIMEOUT_ANNOTATION: "100"});
    let mut pod =
        json!({"metadata": {"name": "p", "uid": "p1", "labels": {"app": "a"}, "annotations": annotations}});
    merge(&mut pod, patch);
    serde_json::from_value(pod).unwrap()
}

/// A ReplicaSet that wants `replicas` and has `ready` that are ready, besides `others`.
fn group(replicas: i32, ready: usize, others: Vec<Pod>) -> Option<Group> {
    let set: ReplicaSet = serde_json::from_value(
        json!({"metadata": {"name": "r", "uid": "r1"}, "spec": {"replicas": replicas, "selector": {}}}),
    )
    .unwrap();
    let one: Pod = serde_json::from_value(json!({
        "metadata": {"name": "r-x", "ownerReferences": [owner("r1")]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }))
    .unwrap();
    let pods = vec![one; ready].into_iter().chain(others);
    Group::of(&set, pods.map(Arc::new))
}

fn owner(uid: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid, "controller": true})
}

fn asked(patch: &Value) -> Evacuation {
    evacuation("e", REPLACEMENT_RESPONDER, patch)
}

fn replacing(patch: &Value, record: &Record, group: Option<&Group>, now: i64) -> (String, Option<i64>) {
    let evacuation = asked(patch);
    let part = Part::of(&evacuation, REPLACEMENT_RESPONDER).unwrap();
    let step = replace(part, &pod(record, &json!({})), record, group, at(now));
    let word = match (step.reply, step.change) {
        (Some(Reply::Accept { .. }), None) => "accept".to_owned(),
        (Some(Reply::Delay { .. }), None) => "delay".to_owned(),
        (Some(Reply::Refuse { message, .. }), None) => format!("refuse: {message}"),
        (None, None) => "wait".to_owned(),
        (None, Some(_)) => "give back".to_owned(),
        other => format!("{other:?}"),
    };
    (word, step.wake_at.map(|time| (time - at(0)).num_seconds()))
}

#[test]
fn a_released_pod_is_accepted_when_its_replacement_is_there_and_refused_when_that_takes_too_long() {
    let (first, again) = (record(&json!({})), record(&json!({"time": time(500), "afterRefusal": time(101)})));
    let (complete, missing) = (group(1, 1, vec![]), group(1, 0, vec![]));
    let delayed = json!({"answer": "Delay", "delayUntil": time(120)});
    let brief = json!({"maxDelaySeconds": 60, "answer": "Delay", "delayUntil": time(60)});
    let refused = json!({"answer": "Refuse", "answerTime": time(101), "retryTime": time(401)});
    let brief_refused = json!({"maxDelaySeconds": 60, "answer": "Refuse", "answerTime": time(55)});
    let why = |seconds: i64| {
        format!(
            "refuse: no replacement was ready within {seconds} s: \
             ReplicaSet r has 0 of 1 pod available without this one; the replacement is not made yet"
        )
    };
    let table = [
        (&json!({}), &first, &missing, 2, "delay".to_owned(), Some(101)),
        (&delayed, &first, &missing, 2, "wait".to_owned(), Some(60)),
        (&delayed, &first, &missing, 61, "delay".to_owned(), Some(101)),
        (&delayed, &first, &complete, 61, "accept".to_owned(), None),
        (&delayed, &first, &missing, 101, why(100), None),
        (&delayed, &first, &complete, 101, "accept".to_owned(), None),
        (&delayed, &first, &None, 61, "give back".to_owned(), None),
        (&brief, &first, &missing, 20, "wait".to_owned(), Some(55)),
        (&brief, &first, &missing, 55, why(54), None),
        (&refused, &again, &missing, 501, "delay".to_owned(), Some(600)),
        (&refused, &again, &missing, 600, why(100), None),
        (&brief_refused, &again, &missing, 501, "wait".to_owned(), Some(600)),
    ];
    for (patch, record, group, now, word, wake) in table {
        assert_eq!(replacing(patch, record, group.as_ref(), now), (word, wake), "{patch} {now}");
    }
}

#[test]
fn releasing_takes_a_label_and_records_it_in_one_patch() {
    let owner: OwnerReference = serde_json::from_value(owner("r1")).unwrap();
    let label = || Label { key: "k".to_owned(), value: "v".to_owned() };
    let evacuation = asked(&json!({"answer": "Delay", "answerTime": time(0)}));
    let part = Part::of(&evacuation, REPLACEMENT_RESPONDER).unwrap();
    let change = release(part, label(), &owner, at(1));
    assert_eq!(change.labels, [("k".to_owned(), None)].into());
    let written: Record =
        serde_json::from_str(change.annotations[RELEASED_ANNOTATION].as_deref().unwrap()).unwrap();
    assert_eq!(written, record(&json!({})));

    let refused = asked(&json!({"answer": "Refuse", "answerTime": time(9)}));
    let part = Part::of(&refused, REPLACEMENT_RESPONDER).unwrap();
    let change = release(part, label(), &owner, at(1));
    let text = change.annotations[RELEASED_ANNOTATION].as_deref().unwrap();
    let written: Record = serde_json::from_str(text).unwrap();
    assert_eq!(written, record(&json!({"afterRefusal": time(9)})));
}

/// Returns a change in short.
fn short(step: &SurgePlan) -> Value {
    let Some(change) = &step.change else {
        return json!("wait");
    };
    let mut change = change.clone();
    if let Some(Some(text)) = change.annotations.get_mut(RELEASED_ANNOTATION) {
        let record: Record = serde_json::from_str(text).unwrap();
        *text = serde_json::to_string(&record.returning).unwrap();
    }
    if !change.owner_references.is_empty() {
        let uids: Vec<String> = change.owner_references.into_iter().map(|owner| owner.uid).collect();
        return json!({"labels": change.labels, "annotations": change.annotations, "owners": uids});
    }
    serde_json::to_value(change).unwrap()
}

#[test]
fn a_pod_that_stays_is_given_back_so_that_it_is_the_last_to_be_deleted() {
    let record = record(&json!({}));
    let cost = |text: &str| json!({"metadata": {"annotations": {DELETION_COST: text}}});
    let ended = json!({"status": {"phase": "Failed"}});
    let other = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x1"}]}});
    let some = group(1, 1, vec![]);
    let table = [
        (
            json!({}),
            &some,
            json!({"labels": {"k": "v"}, "annotations": {RELEASED_ANNOTATION: "{}", DELETION_COST: HIGHEST_COST}}),
        ),
        (
            cost("7"),
            &some,
            json!({"labels": {"k": "v"},
                "annotations": {RELEASED_ANNOTATION: r#"{"deletionCost":"7"}"#, DELETION_COST: HIGHEST_COST}}),
        ),
        (
            other,
            &None,
            json!({"labels": {"k": "v"}, "annotations": {RELEASED_ANNOTATION: null}, "owners": ["r1"]}),
        ),
        (
            ended,
            &some,
            json!({"labels": {"k": "v"}, "annotations": {RELEASED_ANNOTATION: null}, "owners": ["r1"]}),
        ),
    ];
    for (patch, group, expected) in table {
        let step = give_back(&pod(&record, &patch), &record, group.as_ref());
        assert_eq!(short(&step), expected, "{patch}");
    }
}

#[test]
fn what_is_left_of_a_release_is_taken_off_once_the_replica_set_has_chosen() {
    let record = record(&json!({"returning": {"deletionCost": "7"}}));
    let back = |owner: Option<Value>, cost: &str| {
        let owners: Vec<Value> = owner.into_iter().collect();
        json!({"metadata": {"labels": {"k": "v"}, "ownerReferences": owners, "annotations": {DELETION_COST: cost}}})
    };
    let adopted = || back(Some(owner("r1")), HIGHEST_COST);
    let with = |ready: usize| group(1, ready, vec![pod(&record, &adopted())]);
    let off = json!({"annotations": {RELEASED_ANNOTATION: null, DELETION_COST: "7"}});
    let mut owned = off.clone();
    merge(&mut owned, &json!({"labels": {}, "owners": ["r1"]}));
    let table = [
        (back(None, HIGHEST_COST), group(1, 1, vec![]), json!("wait")),
        (adopted(), with(1), json!("wait")),
        (adopted(), with(0), off.clone()),
        (back(Some(owner("r1")), "9"), with(0), json!({"annotations": {RELEASED_ANNOTATION: null}})),
        (back(Some(owner("r2")), HIGHEST_COST), with(1), off.clone()),
        (json!({"metadata": {"annotations": {DELETION_COST: HIGHEST_COST}}}), with(1), off.clone()),
        (back(None, HIGHEST_COST), None, owned),
        (adopted(), None, off),
    ];
    for (patch, group, expected) in table {
        let step = end_return(&pod(&record, &patch), &record, group.as_ref(), at(5));
        assert_eq!(short(&step), expected, "{patch}");
        assert_eq!(step.wake_at.is_some(), expected == json!("wait"));
    }
}

#[test]
fn a_timeout_of_the_pod_that_is_no_number_of_seconds_is_reported_and_the_default_counts() {
    let own = |value: Value| {
        let annotations = json!({REPLACEMENT_TIMEOUT_ANNOTATION: value});
        own_timeout(&serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap())
    };
    assert_eq!(own(json!("100")), Ok(Some(100)));
    assert_eq!(own_timeout(&Pod::default()), Ok(None));
    for bad in ["ten", "0", "-1", ""] {
        let note = own(json!(bad)).unwrap_err();
        assert!(note.contains(&format!("{bad:?}")) && note.contains("600 s count"), "{note}");
    }
}
