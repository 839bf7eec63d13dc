use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{Atom, List, ListKind, Map, Scalar, Schema, SchemaError};

fn schema(definitions: Value) -> Result<Schema, SchemaError> {
    let definitions: BTreeMap<String, Value> = serde_json::from_value(definitions).unwrap();
    Schema::new(&definitions, "Root")
}

/// The atom of one property of the root.
#[expect(clippy::needless_pass_by_value, reason = "literals")]
fn property(keywords: Value) -> Atom {
    let schema = schema(json!({
        "Root": {"type": "object", "properties": {"it": keywords}},
        "Text": {"type": "string"},
        "Tree": {"type": "object", "properties": {
            "branches": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
        }},
    }))
    .unwrap();
    at(&schema, &["it"])
}

fn at(schema: &Schema, path: &[&str]) -> Atom {
    let node = path.iter().fold(schema.root(), |node, name| {
        schema.atom(node).map.as_ref().and_then(|map| map.node(name)).expect("a declared field")
    });
    schema.atom(node).clone()
}

fn list(keywords: Value) -> List {
    property(keywords).list.expect("a list")
}

fn map(keywords: Value) -> Map {
    property(keywords).map.expect("a map")
}

#[test]
fn scalars_follow_type_and_format() {
    let cases = [
        (json!({"type": "string"}), Scalar::String),
        (json!({"type": "string", "format": "byte"}), Scalar::String),
        (json!({"type": "string", "format": "date-time"}), Scalar::Untyped),
        (json!({"type": "integer", "format": "int32"}), Scalar::Number),
        (json!({"type": "number"}), Scalar::Number),
        (json!({"type": "boolean"}), Scalar::Boolean),
        (json!({"type": "string", "x-kubernetes-int-or-string": true}), Scalar::Untyped),
        (json!({"$ref": "#/components/schemas/Text"}), Scalar::String),
        (json!({"allOf": [{"$ref": "#/components/schemas/Text"}], "default": ""}), Scalar::String),
    ];
    for (keywords, expected) in cases {
        assert_eq!(
            property(keywords.clone()),
            Atom { scalar: Some(expected), ..Atom::default() },
            "{keywords}"
        );
    }
}

#[test]
fn a_schema_without_type_accepts_anything() {
    for keywords in [json!({}), json!({"x-kubernetes-int-or-string": true})] {
        let atom = property(keywords);
        assert_eq!(atom.scalar, Some(Scalar::Untyped));
        assert!(atom.list.unwrap().is_atomic());
        assert!(!atom.map.unwrap().atomic);
    }
}

#[test]
fn lists_are_atomic_unless_a_list_type_says_otherwise() {
    let items = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    assert_eq!(list(json!({"type": "array", "items": items})).kind, ListKind::Atomic);
    let set = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
    assert_eq!(list(set).kind, ListKind::Set);
    let keyed = json!({
        "type": "array", "items": items,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
    });
    assert_eq!(list(keyed).kind, ListKind::Map(vec!["name".to_owned()]));
}

#[test]
fn maps_are_granular_unless_a_map_type_says_otherwise() {
    let fields = json!({"a": {"type": "string"}});
    let granular = map(json!({"type": "object", "properties": fields}));
    assert!(!granular.atomic);
    assert_eq!((granular.additional, granular.deduced), (None, false), "no other fields");
    assert!(map(json!({"type": "object", "properties": fields, "x-kubernetes-map-type": "atomic"})).atomic);
    let reference =
        json!({"allOf": [{"$ref": "#/components/schemas/Tree"}], "x-kubernetes-map-type": "atomic"});
    assert!(map(reference).atomic, "the reference says so");
}

#[test]
fn free_form_objects_are_deduced() {
    for keywords in [
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": true}),
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    ] {
        assert!(map(keywords.clone()).deduced, "{keywords}");
    }
    let preserving = map(json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"a": {"type": "string"}},
    }));
    assert!(preserving.additional.is_some() && !preserving.deduced);
}

#[test]
fn a_recursive_definition_is_one_node() {
    let schema = schema(json!({"Root": {"type": "object", "properties": {
        "children": {"type": "array", "items": {"$ref": "#/components/schemas/Root"}}
    }}}))
    .unwrap();
    assert_eq!(at(&schema, &["children"]).list.unwrap().items, schema.root());
}

#[test]
fn metadata_has_the_list_types_of_kubernetes() {
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let bare = json!({"type": "object", "properties": {
        "finalizers": texts, "managedFields": texts,
        "ownerReferences": {"type": "array", "items": {"type": "object"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    }});
    let reference = json!({"type": "object", "properties": {
        "metadata": {"$ref": format!("#/components/schemas/{name}")}
    }});
    for definitions in [
        json!({"Root": reference, name: bare}),
        json!({"Root": {"type": "object", "properties": {"metadata": {"type": "object"}}}}),
        json!({"Root": {"type": "object", "properties": {"spec": {"type": "object"}}}}),
    ] {
        let schema = schema(definitions).unwrap();
        let kind = |field: &str| at(&schema, &["metadata", field]).list.expect("a list").kind;
        assert_eq!(kind("finalizers"), ListKind::Set);
        assert_eq!(kind("ownerReferences"), ListKind::Map(vec!["uid".to_owned()]));
        assert_eq!(kind("managedFields"), ListKind::Atomic);
        assert!(!at(&schema, &["metadata", "labels"]).map.unwrap().atomic);
    }
}

#[test]
fn an_embedded_resource_has_metadata() {
    let schema = schema(json!({"Root": {"type": "object", "properties": {
        "template": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        }
    }}}))
    .unwrap();
    assert_eq!(at(&schema, &["template", "metadata", "finalizers"]).list.unwrap().kind, ListKind::Set);
    assert_eq!(at(&schema, &["template", "kind"]).scalar, Some(Scalar::String));
}

#[test]
fn unusable_definitions_are_errors() {
    let cases = [
        (json!({}), r#"definition "Root": "Root" is not defined"#),
        (
            json!({"Root": {"type": "object", "properties": {"a": {"$ref": "#/components/schemas/B"}}}}),
            r#"definition "Root": "B" is not defined"#,
        ),
        (json!({"Root": {"type": "text"}}), r#"definition "Root": unknown type "text""#),
        (json!({"Root": {"type": "array"}}), r#"definition "Root": a list without items"#),
        (
            json!({"Root": {"type": "array", "items": {}, "x-kubernetes-list-type": "map"}}),
            r#"definition "Root": x-kubernetes-list-type map without x-kubernetes-list-map-keys"#,
        ),
        (
            json!({"Root": {"type": "object", "x-kubernetes-map-type": "x"}}),
            r#"definition "Root": unknown x-kubernetes-map-type "x""#,
        ),
    ];
    for (definitions, message) in cases {
        assert_eq!(schema(definitions).unwrap_err().to_string(), message);
    }
}
