//! The objects on the wire: what is written is read back the same, and the words are the ones of the
//! documentation.

// Helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use chrono::DateTime;
use evacuation_api::{
    Answer, BlockedReason, CaBundle, ConditionType, DeadlineAction, EvacuatedReason, Evacuation,
    EvacuationResponse, EvacuationResponseSpec, EvacuationReview, EvacuationSpec, FailedReason, HttpEndpoint,
    HttpsTrust, PodTarget, RefusalPolicy, Requester, ResponderEntry, SelfEvacuation, ServiceEndpoint,
    Timestamp, WholeSecond, Window, default_evacuation, parse_responders, validate_evacuation,
    validate_responders, validate_response,
};
use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Object that the text of the object reads back to.
fn again<T: Serialize + DeserializeOwned>(object: &T) -> T {
    serde_json::from_str(&serde_json::to_string(object).unwrap()).unwrap()
}

#[test]
fn the_example_of_the_design_survives_and_keeps_its_words() {
    let text = json!({
        "apiVersion": "evacuation.dev/v1alpha1",
        "kind": "Evacuation",
        "metadata": {"name": "db-0", "namespace": "prod"},
        "spec": {
            "target": {"pod": {"name": "db-0", "uid": "6f1c"}},
            "requesters": [{
                "owner": "alice",
                "name": "drain.evacuation.dev/node-a",
                "reason": "NodeMaintenance",
                "message": "kernel upgrade",
                "onRefusal": "Wait",
                "deadline": "2026-11-20T22:00:00Z",
                "atDeadline": "Evict",
                "gracePeriodSeconds": 60,
            }],
            "ttlSecondsAfterFinished": 3600,
        },
        "status": {
            "observedGeneration": 1,
            "requesters": [{
                "owner": "alice",
                "name": "drain.evacuation.dev/node-a",
                "user": "alice",
                "groups": ["ops"],
                "time": "2026-11-20T21:00:00.000000Z",
            }],
            "policy": {
                "onRefusal": "Wait",
                "gracePeriodSeconds": 60,
                "deadlines": [{
                    "owner": "alice",
                    "requester": "drain.evacuation.dev/node-a",
                    "time": "2026-11-20T22:00:00.000000Z",
                    "action": "Evict",
                    "reached": true,
                }],
            },
            "responders": [{
                "name": "self",
                "priority": 10000,
                "timeoutSeconds": 60,
                "maxDelaySeconds": 86400,
                "http": {"port": 8080, "path": "/evacuation", "allowHostNetwork": true},
                "state": "Active",
                "activeTime": "2026-11-20T21:00:00.000001Z",
                "answer": "Delay",
                "answerTime": "2026-11-20T21:00:01.000000Z",
                "delayUntil": "2026-11-20T21:00:31.000000Z",
                "reason": "Busy",
                "message": "half a minute",
            }],
            "eviction": {
                "attempts": 2,
                "inFlight": false,
                "lastAttemptTime": "2026-11-20T21:00:00.000000Z",
                "nextAttemptTime": "2026-11-20T21:01:00.000000Z",
                "blockedBy": [{"kind": "PodDisruptionBudget", "name": "db"}],
                "message": "no",
            },
            "conditions": [{
                "type": "Blocked",
                "status": "True",
                "reason": "BudgetExhausted",
                "message": "",
                "lastTransitionTime": "2026-11-20T21:00:00Z",
            }],
        },
    });
    let object: Evacuation = serde_json::from_value(text.clone()).unwrap();
    assert_eq!(serde_json::to_value(&object).unwrap(), text);
    assert_eq!(again(&object), object);
    assert_eq!(validate_evacuation(&object), []);
}

#[test]
fn any_rfc_3339_time_is_read_and_nothing_else() {
    let read = |text: &str| serde_json::from_value::<Timestamp>(json!(text)).map(|t| t.to_string());
    for (text, expected) in [
        ("2026-11-20T22:00:00Z", "2026-11-20T22:00:00.000000Z"),
        ("2026-11-20T23:00:00+01:00", "2026-11-20T22:00:00.000000Z"),
        ("2026-11-20T22:00:00.123456789Z", "2026-11-20T22:00:00.123456Z"),
    ] {
        assert_eq!(read(text).unwrap(), expected);
    }
    for text in ["", "tomorrow", "2026-11-20", "2026-11-20T22:00:00", "10m", "2026-13-20T22:00:00Z"] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn the_words_of_the_conditions_are_those_of_the_documentation() {
    fn words<T: Copy + std::fmt::Display>(all: &[T]) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }
    assert_eq!(words(ConditionType::ALL), ["Evacuated", "Failed", "Finished", "Blocked"]);
    assert_eq!(words(EvacuatedReason::ALL), ["Evicted", "Deleted", "GoneByOther", "TerminatedInPlace"]);
    let failed = ["Refused", "Canceled", "DeadlineGaveUp", "PodGroupRefused", "Rehearsed"];
    assert_eq!(words(FailedReason::ALL), failed);
    assert!(words(BlockedReason::ALL).contains(&"BudgetExhausted".to_owned()));
}

fn text() -> impl Strategy<Value = Option<String>> {
    proptest::option::of("[ -~\n\t]{0,40}")
}

fn reason() -> impl Strategy<Value = Option<String>> {
    proptest::option::of("[A-Z][A-Za-z0-9]{0,20}")
}

fn time() -> impl Strategy<Value = WholeSecond> {
    (0..4_000_000_000_000_000_i64).prop_map(|micros| DateTime::from_timestamp_micros(micros).unwrap().into())
}

prop_compose! {
    fn window()(
        schedule in "[1-5]?[0-9] (1?[0-9]|\\*/[1-9]) \\* ([1-9],)?12 [0-7]",
        duration_seconds in 60..604_800_i64,
        time_zone in proptest::option::of(proptest::sample::select(
            vec!["UTC".to_owned(), "Europe/Berlin".to_owned()])),
    ) -> Window {
        Window { schedule, duration_seconds, time_zone }
    }
}

prop_compose! {
    fn requester()(
        owner in "[a-z:]{0,20}",
        name in "[a-z]{1,5}\\.[a-z]{1,5}/[a-z0-9]{1,10}",
        reason in reason(),
        message in text(),
        on_refusal in proptest::option::of(proptest::sample::select(
            vec![RefusalPolicy::GiveUp, RefusalPolicy::Wait, RefusalPolicy::Override])),
        deadline in proptest::option::of((time(), proptest::option::of(proptest::sample::select(
            vec![DeadlineAction::GiveUp, DeadlineAction::Evict, DeadlineAction::Delete])))),
        grace_period_seconds in proptest::option::of(0..10_000_i64),
        budget_patience_seconds in proptest::option::of(0..10_000_i64),
        caller_deletes_within_seconds in proptest::option::of(0..120_i64),
        window in proptest::option::of(window()),
    ) -> Requester {
        let (deadline, at_deadline) = deadline.map_or((None, None), |(time, action)| (Some(time), action));
        Requester {
            owner, name, reason, message, on_refusal, deadline, at_deadline, grace_period_seconds,
            budget_patience_seconds, caller_deletes_within_seconds, window,
        }
    }
}

prop_compose! {
    fn evacuation()(
        name in "[a-z0-9]{1,20}",
        uid in proptest::option::of("[a-f0-9-]{1,36}"),
        requester in requester(),
        ttl in proptest::option::of(0..100_000_i64),
        rehearsal in proptest::bool::ANY,
    ) -> Evacuation {
        // A rehearsal asks at once, and gives up at its deadline.
        let requester = match (rehearsal, requester.deadline) {
            (true, deadline) => Requester {
                deadline: Some(deadline.unwrap_or_else(|| chrono::DateTime::UNIX_EPOCH.into())),
                at_deadline: None,
                window: None,
                ..requester
            },
            (false, _) => requester,
        };
        let spec = EvacuationSpec::new(PodTarget { name, uid }, vec![requester]);
        Evacuation::new("e", EvacuationSpec { rehearsal, ttl_seconds_after_finished: ttl, ..spec })
    }
}

/// Base64 text in PEM form; the certificate itself is not read here.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

prop_compose! {
    fn entry()(
        name in "self|[a-z]{1,5}\\.[a-z]{1,5}/[a-z0-9]{1,10}",
        priority in proptest::option::of(0..1_000_000_i32),
        timeout_seconds in proptest::option::of(1..86_400_i64),
        max_delay_seconds in proptest::option::of(0..86_400_i64),
        serves_until_termination in any::<bool>(),
        endpoint in proptest::option::of(
            (1..u16::MAX, proptest::option::of("/[a-z]{0,10}"), proptest::option::of(any::<bool>()), any::<bool>())),
    ) -> ResponderEntry {
        let (mut http, mut service) = (None, None);
        match endpoint {
            Some((port, path, flag, false)) => http = Some(HttpEndpoint { port, path, allow_host_network: flag }),
            Some((port, path, flag, true)) => {
                let https = flag.map(|_| HttpsTrust { ca_bundle: CaBundle(CERTIFICATE.as_bytes().to_vec()) });
                service = Some(ServiceEndpoint { name: "failover".to_owned(), port, path, https });
            }
            None => {}
        }
        ResponderEntry {
            name,
            priority,
            timeout_seconds,
            max_delay_seconds,
            serves_until_termination,
            http,
            service,
        }
    }
}

prop_compose! {
    fn response()(
        responder in proptest::option::of("self|[a-z]{1,5}\\.[a-z]{1,5}/[a-z0-9]{1,10}"),
        uids in proptest::option::of(("[a-f0-9]{1,36}", "[a-f0-9]{1,36}")),
        answer in proptest::option::of(proptest::sample::select(
            vec![Answer::Accept, Answer::Delay, Answer::Refuse])),
        seconds in 1..86_400_i64,
        reason in reason(),
        message in text(),
    ) -> EvacuationResponseSpec {
        let (evacuation_uid, pod_uid) = uids.map_or((None, None), |(e, p)| (Some(e), Some(p)));
        EvacuationResponseSpec {
            responder, evacuation_uid, pod_uid, answer, reason, message,
            delay_seconds: (answer == Some(Answer::Delay)).then_some(seconds),
            retry_after_seconds: (answer == Some(Answer::Refuse)).then_some(seconds),
            acknowledge_cancellation: answer.is_none(),
        }
    }
}

proptest! {
    #[test]
    fn an_evacuation_survives_the_wire_and_its_defaults_are_stable(object in evacuation()) {
        prop_assert_eq!(&again(&object), &object);
        prop_assert_eq!(validate_evacuation(&object), vec![]);
        let mut defaulted = object;
        default_evacuation(&mut defaulted);
        prop_assert_eq!(&again(&defaulted), &defaulted);
        prop_assert_eq!(validate_evacuation(&defaulted), vec![]);
        let mut twice = defaulted.clone();
        default_evacuation(&mut twice);
        prop_assert_eq!(twice, defaulted);
    }

    #[test]
    fn entries_that_are_valid_are_read_back_from_the_annotation(entry in entry()) {
        let entries = vec![entry];
        let parsed = parse_responders(&serde_json::to_string(&entries).unwrap());
        prop_assert_eq!(parsed.as_ref(), Ok(&entries));
        prop_assert_eq!(validate_responders(&machinery_validation::FieldPath::new("spec"), &entries), vec![]);
    }

    #[test]
    fn an_answer_survives_the_wire_and_is_valid(spec in response()) {
        let object = EvacuationResponse::new(spec);
        prop_assert_eq!(&again(&object), &object);
        prop_assert_eq!(validate_response(&object), vec![]);
    }

    #[test]
    fn no_text_of_an_annotation_breaks_the_parser(text in "[\\[\\]{}:,\"a-z0-9 .-]{0,60}") {
        if let Err(error) = parse_responders(&text) {
            prop_assert!(!error.problems.is_empty());
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

/// Every object schema inside a schema, with a name to find it by.
fn objects<'a>(name: &str, schema: &'a Value, found: &mut Vec<(String, &'a Value)>) {
    if schema.get("properties").is_some() {
        found.push((name.to_owned(), schema));
    }
    for (key, value) in schema.as_object().into_iter().flatten() {
        for (inner, value) in value.as_object().into_iter().flatten() {
            if matches!(key.as_str(), "$defs" | "properties") {
                objects(&format!("{name}.{inner}"), value, found);
            }
        }
    }
}

fn schema<T: schemars::JsonSchema>() -> Value {
    schemars::schema_for!(T).to_value()
}

#[test]
fn the_schema_describes_every_field() {
    for schema in [
        schema::<Evacuation>(),
        schema::<EvacuationResponse>(),
        schema::<SelfEvacuation>(),
        schema::<EvacuationReview>(),
        schema::<Vec<ResponderEntry>>(),
    ] {
        let mut found = Vec::new();
        objects("", &schema, &mut found);
        assert!(!found.is_empty());
        for (name, object) in found {
            for (field, value) in object["properties"].as_object().unwrap() {
                // k8s-openapi leaves some of Kubernetes' own fields without a description.
                let ours = !name.contains("io.k8s");
                assert!(!ours || value.get("description").is_some(), "{name}.{field} has no description");
            }
        }
    }
}

#[test]
fn the_schema_requires_what_cannot_be_left_out_and_lists_the_words() {
    let evacuation = schema::<Evacuation>();
    let defs = &evacuation["$defs"];
    let required = |name: &str| defs[name]["required"].as_array().cloned().unwrap_or_default();
    assert_eq!(evacuation["required"], json!(["spec"]));
    assert_eq!(required("EvacuationSpec"), [json!("target")]);
    assert_eq!(required("PodTarget"), [json!("name")]);
    assert_eq!(required("Requester"), [json!("name")]);

    let words = |name: &str| -> Vec<String> {
        let word = |v: &Value| v.get("const").or(Some(v)).and_then(Value::as_str).map(str::to_owned);
        let alternatives = defs[name].get("oneOf").or(defs[name].get("enum")).and_then(Value::as_array);
        alternatives.into_iter().flatten().filter_map(word).collect()
    };
    assert_eq!(words("RefusalPolicy"), ["GiveUp", "Wait", "Override"]);
    assert_eq!(words("DeadlineAction"), ["GiveUp", "Evict", "Delete"]);
    assert_eq!(words("EvictionAction"), ["Evict", "Delete"]);
    assert_eq!(words("Answer"), ["Accept", "Delay", "Refuse"]);
    assert_eq!(words("ResponderState"), ["Inactive", "Active", "Interrupted", "Canceled", "Completed"]);
    let requesters = &defs["EvacuationSpec"]["properties"]["requesters"];
    assert_eq!(requesters["x-kubernetes-list-map-keys"], json!(["owner", "name"]));
}
