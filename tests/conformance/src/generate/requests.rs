//! Requests of every verb.

#![allow(clippy::indexing_slicing, reason = "fields are set in objects that are made here")]

use http::Method;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{objects, one_of, options, scale};
use crate::Request;

pub(super) const JSON: &str = "application/json";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// Any request.
pub(super) fn any() -> impl Strategy<Value = Request> {
    let request = prop_oneof![
        14 => create(),
        2 => generate(),
        5 => get(),
        7 => list(),
        4 => watch(),
        9 => update(),
        10 => merge(),
        7 => json_patch(),
        12 => apply(),
        7 => status(),
        6 => scale::any(),
        8 => delete(),
        3 => delete_collection(),
        3 => malformed(),
        3 => misplaced(),
    ];
    (request, options::accept()).prop_map(|(request, accept)| match accept {
        Some(accept) => request.header("accept", accept),
        None => request,
    })
}

/// The syntax of an object in a body: JSON in most cases.
fn written(object: &Value, yaml: bool) -> (&'static str, String) {
    if yaml {
        ("application/yaml", machinery_merge::to_yaml(object).unwrap_or_default())
    } else {
        (JSON, object.to_string())
    }
}

fn create() -> impl Strategy<Value = Request> {
    let object = objects::name().prop_flat_map(|name| objects::object(Some(name)));
    (object, options::write(), proptest::bool::weighted(0.1)).prop_map(|(object, query, yaml)| {
        let (media_type, body) = written(&object, yaml);
        Request::new(Method::POST, "").query(query).body(media_type, body)
    })
}

fn generate() -> impl Strategy<Value = Request> {
    let prefix = one_of(&["g-", "g-", "Bad_", ""]);
    (objects::object(None), prefix, options::write()).prop_map(|(mut object, prefix, query)| {
        if let Some(metadata) = object.get_mut("metadata").filter(|metadata| metadata.is_object()) {
            metadata["generateName"] = json!(prefix);
        }
        Request::new(Method::POST, "").query(query).body(JSON, object.to_string())
    })
}

fn get() -> impl Strategy<Value = Request> {
    (objects::name(), options::get())
        .prop_map(|(name, query)| Request::new(Method::GET, format!("/{name}")).query(query))
}

fn list() -> impl Strategy<Value = Request> {
    options::list().prop_map(|query| Request::new(Method::GET, "").query(query))
}

fn watch() -> impl Strategy<Value = Request> {
    options::watch().prop_map(|query| Request::new(Method::GET, "").query(query))
}

/// What an update says of the version and the UID that it is for.
pub(super) fn guarded(name: &'static str) -> impl Strategy<Value = Vec<(&'static str, String)>> {
    prop_oneof![
        1 => Just(vec![]),
        12 => Just(vec![("resourceVersion", format!("{{{{rv {name}}}}}"))]),
        1 => Just(vec![("resourceVersion", format!("{{{{old {name}}}}}"))]),
        1 => Just(vec![("resourceVersion", "x".to_owned())]),
        1 => Just(vec![("resourceVersion", "0".to_owned())]),
        1 => Just(vec![("resourceVersion", format!("{{{{rv {name}}}}}")), ("uid", format!("{{{{uid {name}}}}}"))]),
        1 => Just(vec![("resourceVersion", format!("{{{{rv {name}}}}}")), ("uid", "made-up".to_owned())]),
    ]
}

fn update() -> impl Strategy<Value = Request> {
    let parts =
        objects::name().prop_flat_map(|name| (Just(name), objects::object(Some(name)), guarded(name)));
    (parts, options::write(), proptest::bool::weighted(0.1)).prop_map(
        |((name, mut object, guards), query, yaml)| {
            if let Some(metadata) = object.get_mut("metadata").filter(|metadata| metadata.is_object()) {
                for (field, value) in guards {
                    metadata[field] = json!(value);
                }
            }
            let (media_type, body) = written(&object, yaml);
            Request::new(Method::PUT, format!("/{name}")).query(query).body(media_type, body)
        },
    )
}

fn merge() -> impl Strategy<Value = Request> {
    let media_type = prop_oneof![15 => Just(MERGE), 1 => Just(STRATEGIC)];
    (objects::name(), objects::merge_patch(), options::write(), media_type).prop_map(
        |(name, patch, query, media_type)| {
            Request::new(Method::PATCH, format!("/{name}")).query(query).body(media_type, patch.to_string())
        },
    )
}

fn json_patch() -> impl Strategy<Value = Request> {
    (objects::name(), objects::json_patch(), options::write()).prop_map(|(name, patch, query)| {
        Request::new(Method::PATCH, format!("/{name}")).query(query).body(JSON_PATCH, patch.to_string())
    })
}

fn apply() -> impl Strategy<Value = Request> {
    let named = objects::name().prop_flat_map(|name| (Just(name), objects::configuration(name)));
    (named, options::apply(), proptest::bool::ANY).prop_map(|((name, object), query, yaml)| {
        let body =
            if yaml { machinery_merge::to_yaml(&object).unwrap_or_default() } else { object.to_string() };
        Request::new(Method::PATCH, format!("/{name}")).query(query).body(APPLY, body)
    })
}

/// Requests for the status: get, update, patches, apply.
fn status() -> impl Strategy<Value = Request> {
    let named =
        objects::name().prop_flat_map(|name| (Just(name), objects::object(Some(name)), guarded(name)));
    (named, objects::status(), 0..6, options::write(), options::apply()).prop_map(
        |((name, mut object, guards), status, form, query, apply)| {
            let path = format!("/{name}/status");
            if form == 0 {
                return Request::new(Method::GET, path);
            }
            if form == 1 {
                let change = json!({"status": status, "spec": {"replicas": 77}, "metadata": {"labels": {"by": "status"}}});
                return Request::new(Method::PATCH, path).query(query).body(MERGE, change.to_string());
            }
            if form == 2 {
                let change = json!([{"op": "add", "path": "/status", "value": status}]);
                return Request::new(Method::PATCH, path).query(query).body(JSON_PATCH, change.to_string());
            }
            object["status"] = status;
            if form == 3 {
                // A custom resource is stored with a status of null, and rewritten by the next request.
                if object["status"].is_null() {
                    object["status"] = json!({});
                }
                if let Some(fields) = object.as_object_mut() {
                    fields.remove("spec");
                }
                return Request::new(Method::PATCH, path).query(apply).body(APPLY, object.to_string());
            }
            if let Some(metadata) = object.get_mut("metadata").filter(|metadata| metadata.is_object()) {
                for (field, value) in guards {
                    metadata[field] = json!(value);
                }
            }
            Request::new(Method::PUT, path).query(query).body(JSON, object.to_string())
        },
    )
}

fn delete() -> impl Strategy<Value = Request> {
    let body = prop_oneof![
        6 => Just(None),
        1 => Just(Some(json!({"preconditions": {"uid": "{{uid a}}"}}))),
        1 => Just(Some(json!({"preconditions": {"uid": "made-up"}}))),
        1 => Just(Some(json!({"preconditions": {"resourceVersion": "{{rv a}}"}}))),
        1 => Just(Some(json!({"preconditions": {"resourceVersion": "{{old a}}"}}))),
        1 => Just(Some(json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}))),
        1 => Just(Some(json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"}))),
        1 => Just(Some(json!({"propagationPolicy": "Nobody"}))),
        1 => Just(Some(json!({"propagationPolicy": "Orphan", "orphanDependents": true}))),
        1 => Just(Some(json!({"dryRun": ["All"]}))),
        1 => Just(Some(json!({"gracePeriodSeconds": -1}))),
        1 => Just(Some(json!({"kind": "Fleet"}))),
        1 => Just(Some(json!({"haste": true}))),
        1 => Just(Some(json!([]))),
    ];
    (objects::name(), body, options::delete()).prop_map(|(name, body, query)| {
        let mut request = Request::new(Method::DELETE, format!("/{name}")).query(query);
        if body.is_some() {
            // A custom resource would be deleted.
            request.query.retain(|(name, value)| (*name, value.as_str()) != ("dryRun", "All"));
        }
        match body {
            Some(body) => request.body(JSON, body.to_string()),
            None => request,
        }
    })
}

fn delete_collection() -> impl Strategy<Value = Request> {
    options::delete_collection().prop_map(|query| Request::new(Method::DELETE, "").query(query))
}

/// Bodies that are no object, and media types that are not served.
fn malformed() -> impl Strategy<Value = Request> {
    let good = r#"{"apiVersion":"example.machinery.dev/v1","kind":"Fleet","metadata":{"name":"a"},"spec":{"depot":"north"}}"#;
    let body = one_of(&[
        "",
        "{",
        "null",
        "[]",
        "5",
        "{\"kind\":",
        "kind: [",
        "\u{0}",
        r#"{"apiVersion":"example.machinery.dev/v1","kind":"Fleet","metadata":{"name":"a"},"spec":{"depot":"north","depot":"south"}}"#,
        r#"{"apiVersion":"example.machinery.dev/v1","kind":"Fleet","metadata":{"name":"a","name":"b"},"spec":{"depot":"north"}}"#,
        r#"{"apiVersion":"example.machinery.dev/v1","kind":"Fleet","metadata":{"name":"a"},"spec":{"depot":"north"},"spec":{"depot":"south"}}"#,
        r#"{"apiVersion":"example.machinery.dev/v1","kind":"Fleet","Metadata":{"name":"a"},"spec":{"depot":"north"}}"#,
        r#"{"apiVersion":"example.machinery.dev/v1","kind":"Fleet","metadata":{"name":"a"},"spec":{"depot":"north"}} {}"#,
        good,
    ]);
    let form = one_of(&[
        (Method::POST, "", JSON),
        (Method::POST, "", "application/yaml"),
        (Method::POST, "", ""),
        (Method::POST, "", "text/plain"),
        (Method::PUT, "/a", JSON),
        (Method::PUT, "/a", "application/xml"),
        (Method::PATCH, "/a", MERGE),
        (Method::PATCH, "/a", JSON_PATCH),
        (Method::PATCH, "/a", APPLY),
        (Method::PATCH, "/a", JSON),
        (Method::PATCH, "/a", ""),
        (Method::DELETE, "/a", JSON),
        (Method::DELETE, "/a", "text/plain"),
    ]);
    (form, body, options::write()).prop_map(|((method, path, media_type), body, mut query)| {
        if media_type == APPLY {
            query.retain(|(name, _)| *name != "fieldManager");
            query.push(("fieldManager", "one".to_owned()));
        }
        Request::new(method, path).query(query).body(media_type, body)
    })
}

/// Methods and paths that are not served.
fn misplaced() -> impl Strategy<Value = Request> {
    let object = r#"{"apiVersion":"example.machinery.dev/v1","kind":"Fleet","metadata":{"name":"a"},"spec":{"depot":"north"}}"#;
    let misplaced = one_of(&[
        (Method::PUT, ""),
        (Method::PATCH, ""),
        (Method::POST, "/a"),
        (Method::POST, "/a/status"),
        (Method::DELETE, "/a/status"),
        (Method::DELETE, "/a/scale"),
        (Method::GET, "/a/colour"),
        (Method::PUT, "/a/colour"),
        (Method::GET, "/a/status/b"),
        (Method::GET, "/Not_Valid"),
        (Method::OPTIONS, "/a"),
        (Method::PUT, "/b"),
    ]);
    misplaced.prop_map(move |(method, path)| Request::new(method, path).body(JSON, object))
}
