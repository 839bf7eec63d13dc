use serde_json::{Value, json};

use super::*;

/// A pod labelled `app: db` with that annotation and that field.
fn pod(annotation: &Value, field: &Value) -> Pod {
    let annotations = match annotation {
        Value::Null => json!({}),
        Value::String(text) => json!({RESPONDERS_ANNOTATION: text}),
        list => json!({RESPONDERS_ANNOTATION: list.to_string()}),
    };
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "db-0", "labels": {"app": "db"}, "annotations": annotations},
        "spec": {"containers": [], "evictionResponders": field},
    }))
    .unwrap()
}

/// An EvacuationResponder of that age for the pods labelled `app: db`, with these further fields.
fn object(name: &str, minute: u8, responder: &str, more: &Value) -> EvacuationResponder {
    let mut spec = json!({"selector": {"matchLabels": {"app": "db"}}, "name": responder});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": name, "creationTimestamp": format!("2026-01-01T00:{minute:02}:00Z")},
        "spec": spec,
    }))
    .unwrap()
}

/// Name, priority and timeout of each who is asked.
fn asked(pod: &Pod, objects: &[EvacuationResponder]) -> Vec<(String, i32, i64)> {
    let registered = registered_responders(pod, objects);
    let entries = registered.entries.iter();
    entries.map(|entry| (entry.name.clone(), entry.priority(), entry.timeout_seconds())).collect()
}

fn names(pod: &Pod, objects: &[EvacuationResponder]) -> Vec<String> {
    asked(pod, objects).into_iter().map(|(name, ..)| name).collect()
}

#[test]
fn a_pod_that_says_nothing_and_is_not_selected_asks_nobody() {
    assert_eq!(registered_responders(&Pod::default(), []), Registered::default());
    let silent = pod(&Value::Null, &Value::Null);
    let other = object("other", 0, "a.b/c", &json!({"selector": {"matchLabels": {"app": "web"}}}));
    assert_eq!(names(&silent, &[other]), Vec::<String>::new());
}

#[test]
fn everybody_who_registered_is_asked_by_priority_and_then_by_name() {
    let pod = pod(
        &json!([{"name": "self"}, {"name": "z.b/annotated"}]),
        &json!([{"name": "m.b/field", "priority": 30_000}]),
    );
    let objects = [
        object("first", 0, "n.b/object", &json!({})),
        object("high", 1, "z.b/high", &json!({"priority": 20_000})),
        object("low", 2, "a.b/low", &json!({"priority": 0})),
    ];
    assert_eq!(
        names(&pod, &objects),
        ["m.b/field", "z.b/high", "n.b/object", "z.b/annotated", "self", "a.b/low"]
    );
    let turned: Vec<_> = objects.into_iter().rev().collect();
    assert_eq!(
        names(&pod, &turned),
        ["m.b/field", "z.b/high", "n.b/object", "z.b/annotated", "self", "a.b/low"]
    );
}

#[test]
fn a_name_counts_once_in_the_order_of_its_sources_and_with_the_priority_of_the_field() {
    let annotation = json!([{"name": "a.b/x", "timeoutSeconds": 1}]);
    let field = json!([{"name": "a.b/x", "priority": 3}]);
    let object = object("o", 0, "a.b/x", &json!({"timeoutSeconds": 2, "priority": 2}));
    for (annotation, objects, field, expected) in [
        (&annotation, vec![object.clone()], &Value::Null, (10_000, 1)),
        (&annotation, vec![object.clone()], &field, (3, 1)),
        (&Value::Null, vec![object], &field, (3, 2)),
        (&Value::Null, vec![], &field, (3, 60)),
    ] {
        let expected = ("a.b/x".to_owned(), expected.0, expected.1);
        assert_eq!(asked(&pod(annotation, field), &objects), [expected]);
    }
}

#[test]
fn of_two_objects_that_name_one_responder_the_older_counts_and_of_the_same_age_the_first_by_name() {
    let silent = pod(&Value::Null, &Value::Null);
    let timeout = |seconds: i64| json!({"timeoutSeconds": seconds});
    for (objects, expected) in [
        ([object("a", 2, "a.b/x", &timeout(1)), object("b", 1, "a.b/x", &timeout(2))], 2),
        ([object("b", 1, "a.b/x", &timeout(1)), object("a", 1, "a.b/x", &timeout(2))], 2),
    ] {
        assert_eq!(asked(&silent, &objects), [("a.b/x".to_owned(), 10_000, expected)]);
    }
}

#[test]
fn only_objects_of_the_namespace_that_stay_and_select_the_pod_count() {
    let silent = pod(&Value::Null, &Value::Null);
    let mut elsewhere = object("o", 0, "a.b/elsewhere", &json!({"selector": {}}));
    elsewhere.metadata.namespace = Some("other".to_owned());
    let mut going = object("o", 0, "a.b/going", &json!({}));
    going.metadata.deletion_timestamp = going.metadata.creation_timestamp.clone();
    let web = object("o", 0, "a.b/web", &json!({"selector": {"matchLabels": {"app": "web"}}}));
    let every = object("o", 0, "a.b/every", &json!({"selector": {}}));
    assert_eq!(names(&silent, &[elsewhere, going, web, every.clone()]), ["a.b/every"]);
    let mut unlabelled = silent;
    unlabelled.metadata.labels = None;
    assert_eq!(names(&unlabelled, &[every]), ["a.b/every"]);
}

/// Returns `count` EvacuationResponders of falling priority, all of them higher than the default.
fn crowd(count: usize) -> Vec<EvacuationResponder> {
    let priority = |i: usize| json!({"priority": 20_000 - i});
    (0..count).map(|i| object(&format!("o-{i}"), 0, &format!("a.b/r-{i:02}"), &priority(i))).collect()
}

#[test]
fn of_more_than_sixteen_those_of_the_highest_priority_are_asked_and_the_rest_is_named() {
    let silent = pod(&Value::Null, &Value::Null);
    let registered = registered_responders(&silent, &crowd(18));
    assert_eq!(registered.entries.len(), MAX_RESPONDERS);
    assert_eq!(registered.entries[15].name, "a.b/r-15");
    assert_eq!(registered.left_out, ["a.b/r-16", "a.b/r-17"]);
}

#[test]
fn sixteen_registrations_of_others_displace_no_responder_that_the_pod_names() {
    let annotation = json!([{"name": "self", "priority": 5}, {"name": "a.b/own", "priority": 4}]);
    let field = json!([{"name": "a.b/field", "priority": 3}, {"name": "a.b/r-15", "priority": 0}]);
    let registered = registered_responders(&pod(&annotation, &field), &crowd(16));
    let names: Vec<_> = registered.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names[12..], ["self", "a.b/own", "a.b/field", "a.b/r-15"]);
    assert_eq!(names[..2], ["a.b/r-00", "a.b/r-01"], "the order of priority stays");
    assert_eq!(registered.left_out, ["a.b/r-12", "a.b/r-13", "a.b/r-14"]);
}

#[test]
fn self_keeps_its_place_whoever_registers_it() {
    let own: Vec<_> = (0..16).map(|i| json!({"name": format!("a.b/own-{i:02}")})).collect();
    let registered = registered_responders(
        &pod(&json!(own), &Value::Null),
        &[object("s", 0, "self", &json!({"priority": 0}))],
    );
    assert_eq!(registered.entries.len(), MAX_RESPONDERS);
    assert_eq!(registered.entries[15].name, "self");
    assert_eq!(registered.left_out, ["a.b/own-15"]);
}

#[test]
fn an_unreadable_annotation_stands_for_a_silent_self_and_hides_nobody_else() {
    let unreadable = pod(&json!("[1]"), &json!([{"name": "a.b/field", "priority": 1}]));
    let objects = [
        object("o", 0, "a.b/object", &json!({"priority": 20_000})),
        object("s", 0, "self", &json!({"http": {"port": 80}})),
    ];
    let registered = registered_responders(&unreadable, &objects);
    assert_eq!(registered.unreadable.as_deref(), Some("[0]: must be an object"));
    assert_eq!(names(&unreadable, &objects), ["a.b/object", "self", "a.b/field"]);
    assert!(!registered.entries[1].is_pushed(), "the annotation's own self comes first");
}

#[test]
fn the_evictor_of_kubernetes_own_api_is_no_responder() {
    let field = json!([
        {"name": "imperative-eviction.k8s.io/evictor", "priority": 100},
        {"name": "db.acme.io/failover", "priority": 10_000},
    ]);
    assert_eq!(names(&pod(&Value::Null, &field), &[]), ["db.acme.io/failover"]);
}

#[test]
fn what_an_object_says_of_its_endpoint_is_kept() {
    let silent = pod(&Value::Null, &Value::Null);
    let service = json!({"service": {"name": "failover", "port": 8443, "path": "/e"}});
    let registered = registered_responders(&silent, &[object("o", 0, "a.b/x", &service)]);
    assert!(registered.entries[0].is_pushed());
    assert_eq!(registered.entries[0].service.as_ref().unwrap().host("shop"), "failover.shop.svc");
}
