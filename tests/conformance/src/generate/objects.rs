//! Objects in request bodies: mostly good, some with one mistake.

#![allow(clippy::indexing_slicing, reason = "fields are set in objects that are made here")]

use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value, json};

use super::{NAMES, one_of};
use crate::GROUP;

/// Good values of fields of the spec.
fn good() -> Vec<(&'static str, Value)> {
    vec![
        ("depot", json!("south")),
        ("depot", json!("east")),
        ("replicas", json!(0)),
        ("replicas", json!(3)),
        ("replicas", json!(1000)),
        ("paused", json!(true)),
        ("paused", json!(false)),
        ("rate", json!(1.5)),
        ("odometer", json!(9_007_199_254_740_993_i64)),
        ("odometer", json!(-4)),
        ("code", json!("AB")),
        ("replacement", json!("Recreate")),
        ("maxUnavailable", json!("25%")),
        ("maxUnavailable", json!(2)),
        ("tank", json!("60Mi")),
        ("colours", json!({"door": "red"})),
        ("colours", json!({"roof": "blue", "door": "green"})),
        ("colours", json!({})),
        ("driver", json!({"name": "ann"})),
        ("driver", json!({"name": "bob", "license": {"points": 3}})),
        ("driver", json!({"name": "bob", "license": {"class": "C"}})),
        ("position", json!({"east": 1})),
        ("position", json!({"east": 2, "north": 3})),
        ("vehicles", json!([{"name": "v1"}])),
        ("vehicles", json!([{"name": "v2", "seats": 2}, {"name": "v1", "colour": "red"}])),
        ("vehicles", json!([])),
        ("stops", json!([{"town": "x"}])),
        ("stops", json!([{"town": "x", "platform": 2, "minutes": 1}, {"town": "x", "minutes": 5}])),
        ("zones", json!(["z1"])),
        ("zones", json!(["z2", "z1"])),
        ("route", json!(["x", "w", "x"])),
        ("holidays", json!([1, 1, 2])),
        ("passengers", json!({"matchLabels": {"age": "old"}})),
        ("keys", json!({"name": "k"})),
        ("ownership", json!({"lease": {"company": "c"}})),
        ("ownership", json!({"purchase": {"price": 5}})),
        ("ownership", json!({})),
    ]
}

/// Values of fields of the spec that are wrong, or unusual.
fn bad() -> Vec<(&'static str, Value)> {
    vec![
        ("depot", json!("")),
        ("depot", json!(5)),
        ("depot", Value::Null),
        ("depot", json!("d".repeat(64))),
        ("replicas", json!(-1)),
        ("replicas", json!(1001)),
        ("replicas", json!("three")),
        ("replicas", json!(1.5)),
        ("replicas", json!(5_000_000_000_i64)),
        ("replicas", Value::Null),
        ("paused", json!("yes")),
        ("paused", Value::Null),
        ("rate", json!("fast")),
        ("rate", json!(1)),
        ("odometer", json!("1")),
        ("code", json!("abc")),
        ("code", json!("")),
        ("replacement", json!("Sometimes")),
        ("replacement", json!("")),
        ("replacement", json!(1)),
        ("replacement", Value::Null),
        ("maxUnavailable", json!(true)),
        ("maxUnavailable", json!(1.5)),
        ("tank", json!(5)),
        ("tank", json!("much")),
        ("colours", json!({"door": 1})),
        ("colours", json!({"door": null})),
        ("colours", json!(["red"])),
        ("driver", json!({})),
        ("driver", json!("bob")),
        ("driver", json!({"name": "ann", "age": 7})),
        ("driver", json!({"name": "ann", "license": {"class": null, "points": "none"}})),
        ("position", json!({"east": "x"})),
        ("position", json!([])),
        ("vehicles", json!([{"name": "v1"}, {"name": "v1", "seats": 2}])),
        ("vehicles", json!([{"seats": 1}])),
        ("vehicles", json!([{"name": "v1", "wheels": 4}, {"name": "v2", "wheels": 3}])),
        ("vehicles", json!({"name": "v1"})),
        ("vehicles", json!([null])),
        ("stops", json!([{"town": "x"}, {"town": "x", "platform": 1}])),
        ("zones", json!(["z1", "z1"])),
        ("zones", json!(["1", "2", "3", "4", "5", "6", "7", "8", "9"])),
        ("zones", json!("z1")),
        ("route", json!(["x", 5])),
        ("holidays", json!([1, "x"])),
        ("holidays", json!([1.5])),
        ("passengers", json!({"matchLabels": {"age": 1}})),
        ("passengers", json!({"matchExpressions": [{"key": "a"}]})),
        ("keys", json!({"name": 1})),
        ("ownership", json!({"lease": {"company": "c"}, "purchase": {"price": 5}})),
        ("ownership", json!({"gift": {}})),
        ("colour", json!("red")),
        ("horn", json!({"loud": true})),
    ]
}

/// Changes of the whole object that are wrong, or unusual: where, and to what. `None` removes the field.
fn whole() -> Vec<(&'static str, Option<Value>)> {
    vec![
        ("/apiVersion", None),
        ("/apiVersion", Some(json!(format!("{GROUP}/v2")))),
        ("/apiVersion", Some(json!("v1"))),
        ("/kind", None),
        ("/kind", Some(json!("Ship"))),
        ("/kind", Some(json!(""))),
        ("/metadata", None),
        ("/metadata", Some(json!("x"))),
        ("/metadata/name", None),
        ("/metadata/name", Some(json!("Not_Valid"))),
        ("/metadata/name", Some(json!("n".repeat(254)))),
        ("/metadata/name", Some(json!(5))),
        ("/metadata/namespace", Some(json!("elsewhere"))),
        ("/metadata/namespace", Some(json!("{{namespace}}"))),
        ("/metadata/labels", Some(json!({"not valid": "x"}))),
        ("/metadata/labels", Some(json!({"a": "not valid"}))),
        ("/metadata/labels", Some(json!({"a": 1}))),
        ("/metadata/labels", Some(json!([]))),
        ("/metadata/annotations", Some(json!({"x/y/z": "x"}))),
        ("/metadata/annotations", Some(json!({"a": true}))),
        ("/metadata/finalizers", Some(json!(["nodomain"]))),
        ("/metadata/finalizers", Some(json!(["example.com/ok", "example.com/ok"]))),
        ("/metadata/finalizers", Some(json!("example.com/ok"))),
        ("/metadata/ownerReferences", Some(json!([{"apiVersion": "v1", "kind": "Pod", "name": "p"}]))),
        ("/metadata/uid", Some(json!("made-up"))),
        ("/metadata/resourceVersion", Some(json!("1"))),
        ("/metadata/generation", Some(json!(7))),
        ("/metadata/creationTimestamp", Some(json!("2020-01-01T00:00:00Z"))),
        ("/metadata/creationTimestamp", Some(json!("yesterday"))),
        ("/metadata/deletionTimestamp", Some(json!("2020-01-01T00:00:00Z"))),
        ("/metadata/deletionGracePeriodSeconds", Some(json!(5))),
        ("/metadata/selfLink", Some(json!("/x"))),
        ("/metadata/managedFields", Some(json!([]))),
        ("/metadata/managedFields", Some(json!([{"manager": "x", "operation": "Sing"}]))),
        ("/metadata/generateName", Some(json!("g-"))),
        ("/metadata/colour", Some(json!("red"))),
        ("/spec", None),
        ("/spec", Some(json!([]))),
        ("/spec", Some(Value::Null)),
        ("/status", Some(json!({"replicas": 7}))),
        ("/status", Some(json!({"replicas": "x"}))),
        ("/wheels", Some(json!(4))),
    ]
}

/// Statuses.
pub(super) fn status() -> impl Strategy<Value = Value> {
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": "Tested", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    one_of(&[
        json!({}),
        json!({"replicas": 2}),
        json!({"replicas": 2, "observedGeneration": 1, "selector": "fleet=a"}),
        json!({"conditions": [condition("Ready", "True")]}),
        json!({"conditions": [condition("Ready", "False"), condition("Late", "Unknown")]}),
        json!({"conditions": [condition("Ready", "True"), condition("Ready", "False")]}),
        json!({"conditions": [condition("Ready", "Perhaps")]}),
        json!({"conditions": [{"type": "Ready"}]}),
        json!({"replicas": "x"}),
        json!({"replicas": -1}),
        json!({"observedGeneration": "x"}),
        json!({"phase": "New"}),
        json!("x"),
        Value::Null,
    ])
}

/// A spec: the depot and some other fields. One of ten has a mistake.
pub(super) fn spec() -> impl Strategy<Value = Value> {
    (vec(one_of(&good()), 0..5), option::weighted(0.2, one_of(&bad()))).prop_map(|(good, bad)| {
        let mut spec = json!({"depot": "north"});
        for (name, value) in good.into_iter().chain(bad) {
            spec[name] = value;
        }
        spec
    })
}

/// Metadata besides the name.
fn metadata() -> impl Strategy<Value = Value> {
    let labels =
        one_of(&[json!({"app": "one"}), json!({"app": "two", "tier": "back"}), json!({}), Value::Null]);
    let annotations = one_of(&[json!({"note": "words"}), json!({"example.com/why": ""})]);
    let finalizers =
        one_of(&[json!(["example.com/hold"]), json!(["example.com/a", "example.com/b"]), json!(["orphan"])]);
    (option::weighted(0.6, labels), option::weighted(0.2, annotations), option::weighted(0.15, finalizers))
        .prop_map(|(labels, annotations, finalizers)| {
            let mut metadata = json!({});
            for (name, value) in
                [("labels", labels), ("annotations", annotations), ("finalizers", finalizers)]
            {
                if let Some(value) = value {
                    metadata[name] = value;
                }
            }
            metadata
        })
}

/// An object of that name, or without one.
pub(super) fn object(name: Option<&'static str>) -> impl Strategy<Value = Value> {
    let status = option::weighted(0.1, status());
    let change = option::weighted(0.15, one_of(&whole()));
    (metadata(), spec(), status, change).prop_map(move |(mut metadata, spec, status, change)| {
        if let Some(name) = name {
            metadata["name"] = json!(name);
        }
        let mut object =
            json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Fleet", "metadata": metadata, "spec": spec});
        if let Some(status) = status {
            object["status"] = status;
        }
        if let Some((pointer, value)) = change {
            set(&mut object, pointer, value);
        }
        object
    })
}

/// Sets or removes a field.
pub(super) fn set(object: &mut Value, pointer: &str, value: Option<Value>) {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    if let Some(fields) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        match value {
            Some(value) => fields.insert(name.to_owned(), value),
            None => fields.remove(name),
        };
    }
}

/// A configuration to apply to an object of that name.
pub(super) fn configuration(name: &'static str) -> impl Strategy<Value = Value> {
    let fields = vec(one_of(&good()), 0..4);
    let bad = option::weighted(0.12, one_of(&bad()));
    let change = option::weighted(0.1, one_of(&whole()));
    let depot = proptest::bool::weighted(0.85);
    (metadata(), fields, bad, change, depot).prop_map(move |(mut metadata, fields, bad, change, depot)| {
        // A custom resource is stored with empty labels, and rewritten by the next request.
        if metadata["labels"].as_object().is_none_or(serde_json::Map::is_empty) {
            metadata.as_object_mut().map(|fields| fields.remove("labels"));
        }
        metadata["name"] = json!(name);
        let mut spec = if depot { json!({"depot": "north"}) } else { json!({}) };
        for (name, value) in fields.into_iter().chain(bad) {
            spec[name] = value;
        }
        let mut object =
            json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Fleet", "metadata": metadata, "spec": spec});
        if let Some((pointer, value)) = change {
            set(&mut object, pointer, value);
        }
        object
    })
}

/// A merge patch.
pub(super) fn merge_patch() -> impl Strategy<Value = Value> {
    let field = prop_oneof![6 => one_of(&good()), 2 => one_of(&bad())];
    let fields = vec(field, 1..3).prop_map(|fields| {
        let mut spec = json!({});
        for (name, value) in fields {
            spec[name] = value;
        }
        json!({"spec": spec})
    });
    let removal = one_of(&["replicas", "vehicles", "driver", "depot", "ownership", "none"])
        .prop_map(|name| json!({"spec": {name: null}}));
    let whole = one_of(&whole()).prop_map(|(pointer, value)| {
        let mut patch = json!({"metadata": {}});
        set(&mut patch, pointer, Some(value.unwrap_or_default()));
        patch
    });
    let other = one_of(&[
        json!({}),
        json!({"metadata": {"labels": {"app": "three"}}}),
        json!({"metadata": {"labels": {"app": null}}}),
        json!({"metadata": {"finalizers": null}}),
        json!({"metadata": {"finalizers": ["example.com/late"]}}),
        json!({"metadata": {"resourceVersion": "{{rv a}}", "annotations": {"seen": "yes"}}}),
        json!({"metadata": {"resourceVersion": "{{old b}}", "annotations": {"seen": "no"}}}),
        json!({"metadata": {"uid": "{{uid a}}"}}),
        json!({"metadata": {"name": "z"}}),
        json!({"metadata": null}),
        json!({"spec": null}),
        json!({"status": {"replicas": 5}}),
        json!([]),
        json!("x"),
        Value::Null,
    ]);
    prop_oneof![5 => fields, 2 => removal, 2 => whole, 3 => other]
}

/// A JSON patch.
pub(super) fn json_patch() -> impl Strategy<Value = Value> {
    let add = prop_oneof![3 => one_of(&good()), 1 => one_of(&bad())]
        .prop_map(|(name, value)| json!({"op": "add", "path": format!("/spec/{name}"), "value": value}));
    let other = one_of(&[
        json!({"op": "replace", "path": "/spec/replicas", "value": 9}),
        json!({"op": "replace", "path": "/spec/none", "value": 9}),
        json!({"op": "remove", "path": "/spec/replicas"}),
        json!({"op": "remove", "path": "/spec/vehicles/0"}),
        json!({"op": "remove", "path": "/spec/vehicles/9"}),
        json!({"op": "add", "path": "/spec/zones/-", "value": "z9"}),
        json!({"op": "test", "path": "/spec/depot", "value": "north"}),
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": "{{rv a}}"}),
        json!({"op": "copy", "from": "/spec/depot", "path": "/spec/code"}),
        json!({"op": "move", "from": "/spec/depot", "path": "/metadata/labels"}),
        json!({"op": "add", "path": "/metadata/labels/app", "value": "four"}),
        json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "{{old a}}"}),
        json!({"op": "remove", "path": "/metadata/finalizers"}),
        json!({"op": "replace", "path": "/metadata/name", "value": "z"}),
        json!({"op": "remove", "path": "/spec"}),
        json!({"op": "sing", "path": "/spec"}),
        json!({"op": "add"}),
        json!({"op": "add", "path": "spec", "value": 1}),
        json!({"op": "remove", "path": ""}),
    ]);
    let operations = vec(prop_oneof![1 => add, 1 => other], 1..4).prop_map(Value::from);
    prop_oneof![9 => operations, 1 => one_of(&[json!([]), json!({}), json!("x"), json!([1])])]
}

/// The name of an object.
pub(super) fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![6 => Just(NAMES[0]), 3 => Just(NAMES[1]), 1 => Just(NAMES[2])]
}
