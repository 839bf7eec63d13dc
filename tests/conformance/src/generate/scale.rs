//! Requests for the subresource `scale`.

#![allow(clippy::indexing_slicing, reason = "fields are set in objects that are made here")]

use http::Method;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    objects, one_of, options,
    requests::{APPLY, JSON, JSON_PATCH, MERGE, guarded},
};
use crate::Request;

/// Get, update, patches, apply.
pub(super) fn any() -> impl Strategy<Value = Request> {
    let named = objects::name().prop_flat_map(|name| (Just(name), guarded(name)));
    let change = one_of(&changes());
    let merged = prop_oneof![4 => numbers(), 1 => one_of(&merge_patches())];
    (named, numbers(), change, merged, 0..12, options::write(), options::apply()).prop_map(
        |((name, guards), spec, change, merged, form, query, apply)| {
            let path = format!("/{name}/scale");
            let mut scale = json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": spec["spec"],
            });
            match form {
                0..=1 => Request::new(Method::GET, path),
                2..=4 => {
                    Request::new(Method::PATCH, path).query(query).body(MERGE, merged.to_string())
                }
                5 => {
                    let replicas = spec["spec"]["replicas"].clone();
                    let operations = json!([{"op": "add", "path": "/spec/replicas", "value": replicas}]);
                    Request::new(Method::PATCH, path).query(query).body(JSON_PATCH, operations.to_string())
                }
                6..=7 => {
                    Request::new(Method::PATCH, path).query(apply).body(APPLY, scale.to_string())
                }
                8 => {
                    set(&mut scale, &change);
                    Request::new(Method::PATCH, path).query(apply).body(APPLY, scale.to_string())
                }
                _ => {
                    for (field, value) in guards {
                        scale["metadata"][field] = json!(value);
                    }
                    if form == 9 {
                        set(&mut scale, &change);
                    }
                    Request::new(Method::PUT, path).query(query).body(JSON, scale.to_string())
                }
            }
        },
    )
}

/// Desired numbers of replicas, as merge patches.
fn numbers() -> impl Strategy<Value = Value> {
    let good = one_of(&[json!(0), json!(1), json!(3), json!(5), json!(1000)]);
    let bad = one_of(&[
        json!(-1),
        json!(1001),
        json!("three"),
        json!(1.5),
        json!(5_000_000_000_i64),
        json!(-2_147_483_648_i64),
        Value::Null,
    ]);
    prop_oneof![5 => good, 1 => bad].prop_map(|replicas| json!({"spec": {"replicas": replicas}}))
}

/// Other merge patches.
fn merge_patches() -> Vec<Value> {
    vec![
        json!({}),
        json!({"spec": null}),
        json!({"status": {"replicas": 9}}),
        json!({"metadata": {"labels": {"by": "scale"}}}),
        json!({"metadata": {"name": "z"}}),
        json!({"metadata": {"uid": "made-up"}, "spec": {"replicas": 2}}),
        json!({"metadata": {"resourceVersion": "{{rv a}}"}, "spec": {"replicas": 2}}),
        json!({"metadata": {"resourceVersion": "{{old b}}"}, "spec": {"replicas": 2}}),
        json!({"spec": {"depot": "south"}}),
        json!({"kind": "Fleet"}),
        json!({"colour": "red"}),
        json!("x"),
    ]
}

/// Changes of a scale that are wrong, or unusual: where, and to what. `None` removes the field.
fn changes() -> Vec<(&'static str, Option<Value>)> {
    vec![
        ("/apiVersion", None),
        ("/apiVersion", Some(json!("autoscaling/v2"))),
        ("/kind", None),
        ("/kind", Some(json!("Fleet"))),
        ("/metadata", None),
        ("/metadata/name", None),
        ("/metadata/name", Some(json!("z"))),
        ("/metadata/namespace", Some(json!("elsewhere"))),
        ("/metadata/namespace", Some(json!("{{namespace}}"))),
        ("/metadata/labels", Some(json!({"by": "scale"}))),
        ("/metadata/generation", Some(json!(7))),
        ("/metadata/managedFields", Some(json!([]))),
        ("/metadata/colour", Some(json!("red"))),
        ("/spec", None),
        ("/spec", Some(json!([]))),
        ("/spec/depot", Some(json!("south"))),
        ("/status", Some(json!({"replicas": 7}))),
        ("/wheels", Some(json!(4))),
    ]
}

fn set(scale: &mut Value, (pointer, value): &(&'static str, Option<Value>)) {
    objects::set(scale, pointer, value.clone());
}
