//! Random shapes of a kind, and their OpenAPI schemas.

use std::collections::BTreeMap;

use rand::{RngExt, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, Value, json};

pub(crate) const GROUP: &str = "example.com";
pub(crate) const API_VERSION: &str = "example.com/v1";
pub(crate) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Shape of a value.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Text,
    Time,
    Integer,
    Number,
    Flag,
    IntOrString,
    /// An object or value of which nothing is known.
    Free {
        object: bool,
    },
    Struct {
        fields: BTreeMap<String, Shape>,
        map_type: Option<&'static str>,
        preserve: bool,
    },
    Map {
        values: Box<Shape>,
        map_type: Option<&'static str>,
    },
    List {
        items: Box<Shape>,
        marked: bool,
    },
    Set {
        items: Box<Shape>,
    },
    /// The items are structs. A key has a default or not.
    Keyed {
        items: Box<Shape>,
        keys: Vec<Key>,
    },
    /// A list of trees by their leaves.
    Trees,
    /// A whole object inside another one.
    Embedded,
    /// A definition that refers to itself.
    Tree {
        atomic: bool,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) number: bool,
    pub(crate) default: Option<Value>,
}

pub(crate) fn kind(rng: &mut StdRng) -> Shape {
    let mut part = |least: usize| {
        let fields = (0..rng.random_range(least..6)).map(|at| (NAMES[at].to_owned(), any(rng, 3))).collect();
        Shape::Struct { fields, map_type: None, preserve: false }
    };
    let fields = [("spec".to_owned(), part(3)), ("status".to_owned(), part(1))];
    Shape::Struct { fields: fields.into(), map_type: None, preserve: false }
}

fn map_type(rng: &mut StdRng) -> Option<&'static str> {
    *[None, None, None, Some("granular"), Some("atomic")].choose(rng).unwrap()
}

fn scalar(rng: &mut StdRng) -> Shape {
    match rng.random_range(0..6) {
        0 | 1 => Shape::Text,
        2 => Shape::Integer,
        3 => Shape::IntOrString,
        4 => Shape::Flag,
        _ => [Shape::Number, Shape::Time].choose(rng).unwrap().clone(),
    }
}

fn any(rng: &mut StdRng, depth: usize) -> Shape {
    if depth == 0 {
        return scalar(rng);
    }
    match rng.random_range(0..20) {
        0..3 => scalar(rng),
        3 => Shape::Free { object: rng.random() },
        4..8 => structure(rng, depth),
        8..10 => Shape::Map { values: Box::new(any(rng, depth - 1)), map_type: map_type(rng) },
        10..12 => {
            let marked = rng.random();
            Shape::List { items: Box::new(any(rng, depth - 1)), marked }
        }
        12..14 => Shape::Set { items: Box::new(scalar(rng)) },
        14..18 => keyed(rng, depth),
        18 if rng.random() => Shape::Trees,
        18 => Shape::Embedded,
        _ => Shape::Tree { atomic: rng.random_ratio(1, 4) },
    }
}

fn structure(rng: &mut StdRng, depth: usize) -> Shape {
    let fields = (0..rng.random_range(1..5)).map(|at| (NAMES[at].to_owned(), any(rng, depth - 1))).collect();
    Shape::Struct { fields, map_type: map_type(rng), preserve: rng.random_ratio(1, 6) }
}

fn keyed(rng: &mut StdRng, depth: usize) -> Shape {
    let fields = (0..rng.random_range(1..4)).map(|at| (NAMES[at].to_owned(), any(rng, depth - 1))).collect();
    let map_type = if rng.random_ratio(1, 8) { Some("atomic") } else { None };
    let items = Shape::Struct { fields, map_type, preserve: false };
    let mut keys = Vec::new();
    for (name, number) in [("name", false), ("port", true)] {
        let default = if number { json!(80) } else { json!("x") };
        let default = rng.random_ratio(1, 3).then_some(default);
        if rng.random_ratio(2, 3) {
            keys.push(Key { name, number, default });
        }
    }
    if keys.is_empty() {
        keys.push(Key { name: "name", number: false, default: None });
    }
    Shape::Keyed { items: Box::new(items), keys }
}

/// Changes what is granular to atomic and back, here and there.
pub(crate) fn toggled(rng: &mut StdRng, shape: &Shape) -> Shape {
    let flip = rng.random_ratio(1, 3);
    let flipped = |map_type: Option<&'static str>| match map_type {
        Some("atomic") => None,
        _ => Some("atomic"),
    };
    match shape.clone() {
        Shape::Struct { fields, map_type, preserve } => {
            let fields = fields.iter().map(|(name, field)| (name.clone(), toggled(rng, field))).collect();
            Shape::Struct { fields, map_type: if flip { flipped(map_type) } else { map_type }, preserve }
        }
        Shape::Map { values, map_type } => {
            let values = Box::new(toggled(rng, &values));
            Shape::Map { values, map_type: if flip { flipped(map_type) } else { map_type } }
        }
        Shape::Set { items } if flip => Shape::List { items, marked: true },
        Shape::Keyed { items, keys } if flip => {
            let mut items = *items;
            if let Shape::Struct { fields, .. } = &mut items {
                fields.extend(
                    keys.iter().map(|key| {
                        (key.name.to_owned(), if key.number { Shape::Integer } else { Shape::Text })
                    }),
                );
            }
            Shape::List { items: Box::new(items), marked: true }
        }
        Shape::Keyed { items, keys } => Shape::Keyed { items: Box::new(toggled(rng, &items)), keys },
        other => other,
    }
}

/// The definitions of a kind. `bare` leaves out of the metadata what servers add.
pub(crate) fn definitions(kind: &Shape, bare: bool) -> BTreeMap<String, Value> {
    let Shape::Struct { fields, .. } = kind else { panic!("a kind is a struct") };
    let mut properties: Map<String, Value> =
        fields.iter().map(|(name, shape)| (name.clone(), schema(shape, bare))).collect();
    properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
    properties.insert("kind".to_owned(), json!({"type": "string"}));
    properties.insert(
        "metadata".to_owned(),
        json!({"allOf": [{"$ref": format!("#/components/schemas/{OBJECT_META}")}], "default": {}}),
    );
    let root = json!({
        "type": "object",
        "properties": properties,
        "x-kubernetes-group-version-kind": [{"group": GROUP, "version": "v1", "kind": "Thing"}],
    });
    let tree = json!({"type": "object", "properties": {
        "leaf": {"type": "string"},
        "branches": {
            "type": "array",
            "items": {"$ref": "#/components/schemas/Tree"},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["leaf"],
        },
    }});
    BTreeMap::from([
        ("Root".to_owned(), root),
        ("Tree".to_owned(), tree),
        (OBJECT_META.to_owned(), object_meta(bare)),
    ])
}

fn schema(shape: &Shape, bare: bool) -> Value {
    match shape {
        Shape::Text => json!({"type": "string"}),
        Shape::Time => json!({"type": "string", "format": "date-time"}),
        Shape::Integer => json!({"type": "integer", "format": "int64"}),
        Shape::Number => json!({"type": "number"}),
        Shape::Flag => json!({"type": "boolean"}),
        Shape::IntOrString => json!({"x-kubernetes-int-or-string": true}),
        Shape::Free { object: true } => json!({"type": "object"}),
        Shape::Free { object: false } => json!({"x-kubernetes-preserve-unknown-fields": true}),
        Shape::Struct { fields, map_type, preserve } => {
            let properties: Map<String, Value> =
                fields.iter().map(|(name, field)| (name.clone(), schema(field, bare))).collect();
            let mut schema = json!({"type": "object", "properties": properties});
            if *preserve {
                schema["x-kubernetes-preserve-unknown-fields"] = true.into();
            }
            with_map_type(schema, *map_type)
        }
        Shape::Map { values, map_type } => {
            with_map_type(json!({"type": "object", "additionalProperties": schema(values, bare)}), *map_type)
        }
        Shape::List { items, marked } => {
            let mut list = json!({"type": "array", "items": schema(items, bare)});
            if *marked {
                list["x-kubernetes-list-type"] = "atomic".into();
            }
            list
        }
        Shape::Set { items } => {
            json!({"type": "array", "items": schema(items, bare), "x-kubernetes-list-type": "set"})
        }
        Shape::Keyed { items, keys } => {
            let mut items = schema(items, bare);
            for Key { name, number, default } in keys {
                let mut key = json!({"type": if *number { "integer" } else { "string" }});
                if let Some(default) = default {
                    key["default"] = default.clone();
                }
                items["properties"][name] = key;
            }
            let keys: Vec<&str> = keys.iter().map(|key| key.name).collect();
            json!({
                "type": "array", "items": items,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
            })
        }
        Shape::Trees => json!({
            "type": "array", "items": {"$ref": "#/components/schemas/Tree"},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["leaf"],
        }),
        Shape::Embedded => {
            let mut object = json!({
                "type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true,
            });
            if !bare {
                // The kube-apiserver adds these when it publishes the schema.
                object["properties"] = json!({
                    "apiVersion": {"type": "string"}, "kind": {"type": "string"},
                    "metadata": {"$ref": format!("#/components/schemas/{OBJECT_META}")},
                });
            }
            object
        }
        Shape::Tree { atomic } => {
            let tree = json!({"allOf": [{"$ref": "#/components/schemas/Tree"}]});
            with_map_type(tree, atomic.then_some("atomic"))
        }
    }
}

fn with_map_type(mut schema: Value, map_type: Option<&str>) -> Value {
    if let Some(map_type) = map_type {
        schema["x-kubernetes-map-type"] = map_type.into();
    }
    schema
}

fn object_meta(bare: bool) -> Value {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let mut meta = json!({"type": "object", "properties": {
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "uid": {"type": "string"},
        "labels": texts,
        "annotations": texts,
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "ownerReferences": {"type": "array", "items": {"type": "object", "properties": {
            "uid": {"type": "string"}, "name": {"type": "string"},
        }}},
        "managedFields": {"type": "array", "items": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        }},
    }});
    if !bare {
        let fields = &mut meta["properties"];
        fields["finalizers"]["x-kubernetes-list-type"] = "set".into();
        fields["managedFields"]["x-kubernetes-list-type"] = "atomic".into();
        fields["ownerReferences"]["x-kubernetes-list-type"] = "map".into();
        fields["ownerReferences"]["x-kubernetes-list-map-keys"] = json!(["uid"]);
        fields["ownerReferences"]["items"]["x-kubernetes-map-type"] = "atomic".into();
    }
    meta
}
