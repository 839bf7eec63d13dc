//! Documents seen through a schema.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]
#![allow(clippy::needless_pass_by_value, reason = "literals")]

mod fixture;

use fixture::{document, schema};
use machinery_apply::{
    FieldSet, Path, PathElement,
    typed::{Duplicates, compare, extract_items, field_set, merge, reconcile, remove_items, validate},
};
use serde_json::{Value, json};

fn fields(set: &FieldSet) -> Vec<String> {
    set.paths().iter().map(ToString::to_string).collect()
}

fn spec_fields(spec: Value) -> Vec<String> {
    let set = field_set(&schema(&json!({})), &json!({"spec": spec}));
    fields(&set)
}

#[test]
fn a_document_sets_its_leaves_items_and_entries() {
    let cases = [
        (json!({"title": "x", "strategy": {"kind": "x"}}), vec![".spec.title", ".spec.strategy.kind"]),
        (json!({"limits": {"cpu": 1}}), vec![".spec.limits.cpu"]),
        (json!({"extra": {"a": {"b": [1]}}}), vec![".spec.extra.a", ".spec.extra.a.b"]),
        (json!({"args": [], "selector": {}}), vec![".spec.args", ".spec.selector"]),
        (
            json!({"strategy": {}, "limits": null, "tags": null}),
            vec![".spec.limits", ".spec.strategy", ".spec.tags"],
        ),
        (json!({"tags": [], "ports": []}), vec![]),
        (json!({"tags": ["x", "y", "x"]}), vec![r#".spec.tags[="x"]"#, r#".spec.tags[="y"]"#]),
        (
            json!({"containers": [{"name": "c", "image": "i"}]}),
            vec![
                r#".spec.containers[name="c"]"#,
                r#".spec.containers[name="c"].image"#,
                r#".spec.containers[name="c"].name"#,
            ],
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(spec_fields(spec.clone()), expected, "{spec}");
    }
}

#[test]
fn a_comparison_tells_removed_modified_and_added_fields() {
    let compared = compare(
        &schema(&json!({})),
        &document(json!({"title": "x", "replicas": 1, "args": ["x"], "tags": ["x", "y"], "limits": {"a": 1}})),
        &document(json!({"title": "x", "replicas": 2, "args": ["y"], "tags": ["y", "z"], "strategy": {"kind": "x"}})),
    )
    .unwrap();
    assert_eq!(fields(&compared.removed), [".spec.limits", ".spec.limits.a", r#".spec.tags[="x"]"#]);
    assert_eq!(fields(&compared.modified), [".spec.args", ".spec.replicas"]);
    assert_eq!(fields(&compared.added), [".spec.strategy", ".spec.strategy.kind", r#".spec.tags[="z"]"#]);
    let ignored: FieldSet =
        [Path::fields(&["spec", "tags"]), Path::fields(&["spec", "limits"])].into_iter().collect();
    assert_eq!(fields(&compared.without(&ignored).removed), [""; 0]);
}

#[test]
fn duplicates_are_compared_as_one_value() {
    let ports = |names: &[&str]| {
        let ports = names.iter().map(|name| json!({"port": 1, "name": name}));
        document(json!({"ports": ports.collect::<Value>()}))
    };
    let compare = |old: &[&str], new: &[&str]| {
        let compared = compare(&schema(&json!({})), &ports(old), &ports(new)).unwrap();
        [compared.removed, compared.modified, compared.added].map(|set| fields(&set).len())
    };
    assert_eq!(compare(&["x", "y"], &["x", "y"]), [0, 0, 0]);
    assert_eq!(compare(&["x", "y"], &["x", "z"]), [0, 1, 0], "the item");
    assert_eq!(compare(&["x", "y"], &["x"]), [1, 0, 3], "the item, and the fields that are told apart now");
    assert_eq!(compare(&["x"], &["x", "y"]), [3, 0, 1]);
}

#[test]
fn duplicates_are_valid_in_live_objects_only() {
    let document = document(json!({"tags": ["x", "x"]}));
    assert!(validate(&schema(&json!({})), &document, Duplicates::Allow).is_ok());
    let errors = validate(&schema(&json!({})), &document, Duplicates::Deny).unwrap_err();
    assert_eq!(errors.to_string(), r#".spec.tags: duplicate entries for key [="x"]"#);
}

#[test]
fn every_mismatch_is_reported() {
    let document =
        document(json!({"title": [], "replicas": "x", "strategy": 1, "args": [1, "x"], "tags": [null]}));
    let errors = validate(&schema(&json!({})), &document, Duplicates::Deny).unwrap_err();
    let errors: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            ".spec.args[0]: expected string, got 1",
            r#".spec.replicas: expected numeric (int or float), got "x""#,
            ".spec.strategy: expected map, got 1",
            ".spec.tags: element 0: associative list without keys has an element that's an explicit null",
            ".spec.title: expected string, got a list",
        ]
    );
    let many = fixture::document(json!({"args": vec![1; 1000]}));
    assert_eq!(validate(&schema(&json!({})), &many, Duplicates::Deny).unwrap_err().0.len(), 100);
}

#[test]
fn a_merge_replaces_leaves_and_keeps_the_rest() {
    let schema = schema(&json!({}));
    let live =
        json!({"spec": {"title": "x", "limits": {"a": 1, "b": 2}, "args": ["x"], "extra": {"a": {"b": 1}}}});
    let applied = json!({"spec": {"limits": {"b": 3}, "args": ["y"], "extra": {"a": {"c": 1}}}});
    let merged = json!({"spec": {
        "title": "x", "limits": {"a": 1, "b": 3}, "args": ["y"], "extra": {"a": {"b": 1, "c": 1}},
    }});
    assert_eq!(merge(&schema, &live, &applied), Ok(Some(merged)));
    let duplicates = json!({"spec": {"tags": ["x", "x"]}});
    assert!(merge(&schema, &live, &duplicates).is_err());
}

#[test]
fn items_are_removed_and_extracted_by_their_paths() {
    let schema = schema(&json!({}));
    let document =
        json!({"spec": {"title": "x", "ports": [{"port": 1, "name": "a"}, {"port": 2}], "tags": ["x"]}});
    let port = PathElement::key(vec![("port".to_owned(), json!(1)), ("protocol".to_owned(), json!("TCP"))]);
    let ports = || vec![PathElement::field("spec"), PathElement::field("ports"), port.clone()];
    let name = [ports(), vec![PathElement::field("name")]].concat();
    let named: FieldSet = [Path(name)].into_iter().collect();
    let left = json!({"spec": {"title": "x", "ports": [{"port": 1}, {"port": 2}], "tags": ["x"]}});
    assert_eq!(remove_items(&schema, document.clone(), &named), left);
    assert_eq!(extract_items(&schema, document.clone(), &named), json!({"spec": {"ports": [{"name": "a"}]}}));
    let tag = vec![PathElement::field("spec"), PathElement::field("tags"), PathElement::value(json!("x"))];
    let set: FieldSet = [Path(ports()), Path(tag)].into_iter().collect();
    let left = json!({"spec": {"title": "x", "ports": [{"port": 2}], "tags": null}});
    assert_eq!(remove_items(&schema, document, &set), left, "an empty list becomes null");
}

#[test]
fn a_set_is_adapted_to_what_is_atomic_now() {
    let set = field_set(
        &schema(&json!({})),
        &json!({"spec": {"tags": ["x"], "strategy": {"kind": "x"}, "title": "x"}}),
    );
    assert_eq!(reconcile(&schema(&json!({})), &set), None);
    let tags = json!({"type": "array", "items": {"type": "string"}});
    let adapted = reconcile(&schema(&json!({"tags": tags})), &set).unwrap();
    assert_eq!(fields(&adapted), [".spec.tags", ".spec.title", ".spec.strategy.kind"]);
}
