//! From OpenAPI v3 to atoms.

use std::collections::BTreeMap;

use serde_json::{Map as Object, Value};

use crate::{Atom, Field, List, ListKind, ListPatch, Map, Node, Scalar, SchemaError, object_meta};

const LIST_TYPE: &str = "x-kubernetes-list-type";
const LIST_MAP_KEYS: &str = "x-kubernetes-list-map-keys";
const PATCH_STRATEGY: &str = "x-kubernetes-patch-strategy";
const PATCH_MERGE_KEY: &str = "x-kubernetes-patch-merge-key";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
/// Values of any kind that merge as a whole.
const UNTYPED: Node = Node(0);
/// Values of any kind, of which maps merge field by field.
const DEDUCED: Node = Node(1);
/// Maximum nesting of schemas inside one definition.
const MAX_DEPTH: usize = 128;

/// A definition and the atomicity that a reference to it sets.
type Reference = (String, Option<bool>);

/// Converts definitions on demand. References wait in a list, so that only nesting recurses.
pub(crate) struct Converter<'a> {
    definitions: &'a BTreeMap<String, Value>,
    atoms: Vec<Atom>,
    nodes: BTreeMap<Reference, Node>,
    waiting: Vec<(Reference, Node)>,
}

/// Position in the definitions.
#[derive(Clone, Copy)]
struct Place<'a> {
    definition: &'a str,
    /// Unknown fields are kept.
    preserve: bool,
    depth: usize,
}

impl Place<'_> {
    fn unsupported(&self, reason: impl Into<String>) -> SchemaError {
        SchemaError::Unsupported { definition: self.definition.to_owned(), reason: reason.into() }
    }
}

impl<'a> Converter<'a> {
    pub(crate) fn new(definitions: &'a BTreeMap<String, Value>) -> Self {
        let anything = |items: Node, fields: Node, atomic: bool| Atom {
            scalar: Some(Scalar::Untyped),
            list: Some(List { items, kind: ListKind::Atomic, patch: ListPatch::Replace }),
            map: Some(Map { additional: Some(fields), atomic, deduced: fields == DEDUCED, ..Map::default() }),
        };
        let atoms = vec![anything(UNTYPED, UNTYPED, true), anything(UNTYPED, DEDUCED, false)];
        Self { definitions, atoms, nodes: BTreeMap::new(), waiting: Vec::new() }
    }

    /// Converts the definition `root` and every definition that it needs.
    pub(crate) fn convert(mut self, root: &str) -> Result<(Vec<Atom>, Node), SchemaError> {
        let node = self.named(root, root, None)?;
        while let Some(((name, atomic), node)) = self.waiting.pop() {
            let place = Place { definition: &name, preserve: false, depth: 0 };
            let mut atom = self.definition(&name, place)?;
            if let Some(atomic) = atomic {
                override_atomicity(&mut atom, atomic, place)?;
            }
            if name == root {
                self.complete_root(&mut atom, place)?;
            }
            self.set(node, atom);
        }
        Ok((self.atoms, node))
    }

    /// Gives the root of a kind the fields of every object, as kube-apiserver does for custom resources.
    fn complete_root(&mut self, atom: &mut Atom, place: Place<'_>) -> Result<(), SchemaError> {
        let Some(map) = atom.map.as_mut().filter(|map| !map.fields.is_empty()) else {
            return Ok(());
        };
        let mut fields = BTreeMap::new();
        self.embed(&mut fields, place)?;
        for (name, field) in fields {
            let declared = map.fields.get(&name).is_some_and(|field| {
                name != "metadata" || self.nodes.values().any(|node| *node == field.node)
            });
            if !declared {
                map.fields.insert(name, field);
            }
        }
        Ok(())
    }

    fn add(&mut self, atom: Atom) -> Node {
        self.atoms.push(atom);
        Node(self.atoms.len() - 1)
    }

    fn set(&mut self, node: Node, atom: Atom) {
        if let Some(slot) = self.atoms.get_mut(node.0) {
            *slot = atom;
        }
    }

    /// Returns the node of a definition, which may still wait for its conversion.
    fn named(&mut self, name: &str, from: &str, atomic: Option<bool>) -> Result<Node, SchemaError> {
        let reference = (name.to_owned(), atomic);
        if let Some(node) = self.nodes.get(&reference) {
            return Ok(*node);
        }
        if !self.definitions.contains_key(name) && !object_meta::is_name(name) {
            return Err(SchemaError::Unresolved { definition: from.to_owned(), reference: name.to_owned() });
        }
        let node = self.add(Atom::default());
        self.nodes.insert(reference.clone(), node);
        self.waiting.push((reference, node));
        Ok(node)
    }

    fn definition(&mut self, name: &str, place: Place<'_>) -> Result<Atom, SchemaError> {
        // Both are of any shape in documents, whatever their definition says.
        if name.ends_with(".api.resource.Quantity") {
            return Ok(Atom { scalar: Some(Scalar::Untyped), ..Atom::default() });
        }
        let untyped = || self.atoms.get(UNTYPED.0).cloned().unwrap_or_default();
        if name.ends_with(".pkg.runtime.RawExtension") {
            return Ok(untyped());
        }
        let definitions = self.definitions;
        let schema = definitions.get(name);
        if object_meta::is_name(name) {
            return self.atom(&object_meta::complete(schema), place);
        }
        self.atom(schema.unwrap_or(&Value::Null), place)
    }

    /// Returns the node of a schema, which is a reference or written in place.
    fn node(&mut self, schema: &Value, place: Place<'_>) -> Result<Node, SchemaError> {
        if let Some(reference) = reference(schema) {
            return self.named(reference, place.definition, atomicity(schema, place)?);
        }
        if place.depth >= MAX_DEPTH {
            return Err(place.unsupported(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let atom = self.atom(schema, Place { depth: place.depth + 1, ..place })?;
        Ok(self.add(atom))
    }

    fn atom(&mut self, schema: &Value, place: Place<'_>) -> Result<Atom, SchemaError> {
        let place = Place { preserve: place.preserve || flag(schema, PRESERVE), ..place };
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
        let scalar = |scalar| Ok(Atom { scalar: Some(scalar), ..Atom::default() });
        match kind {
            "" => Ok(Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(self.list(schema, place)?),
                map: Some(self.map(schema, place)?),
            }),
            "object" => Ok(Atom { map: Some(self.map(schema, place)?), ..Atom::default() }),
            "array" if schema.get("items").is_none() => Err(place.unsupported("a list without items")),
            "array" => Ok(Atom { list: Some(self.list(schema, place)?), ..Atom::default() }),
            _ if flag(schema, INT_OR_STRING) => scalar(Scalar::Untyped),
            "integer" | "number" => scalar(Scalar::Number),
            "boolean" => scalar(Scalar::Boolean),
            "string" if matches!(format, "" | "byte") => scalar(Scalar::String),
            "string" => scalar(Scalar::Untyped),
            other => Err(place.unsupported(format!("unknown type {other:?}"))),
        }
    }

    fn list(&mut self, schema: &Value, place: Place<'_>) -> Result<List, SchemaError> {
        let kind = match schema.get(LIST_TYPE).map(|kind| kind.as_str().unwrap_or_default()) {
            None | Some("atomic") => ListKind::Atomic,
            Some("set") => ListKind::Set,
            Some("map") => {
                let keys = schema.get(LIST_MAP_KEYS).and_then(Value::as_array).into_iter().flatten();
                let keys: Vec<String> = keys.filter_map(Value::as_str).map(str::to_owned).collect();
                if keys.is_empty() {
                    return Err(place.unsupported(format!("{LIST_TYPE} map without {LIST_MAP_KEYS}")));
                }
                ListKind::Map(keys)
            }
            Some(other) => return Err(place.unsupported(format!("unknown {LIST_TYPE} {other:?}"))),
        };
        let items = schema.get("items").map_or(Ok(UNTYPED), |items| self.node(items, place))?;
        Ok(List { items, kind, patch: list_patch(schema) })
    }

    fn map(&mut self, schema: &Value, place: Place<'_>) -> Result<Map, SchemaError> {
        let none = Object::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let mut fields = BTreeMap::new();
        for (name, property) in properties {
            let default = property.get("default").filter(|default| !default.is_null()).cloned();
            fields.insert(name.clone(), Field { node: self.node(property, place)?, default });
        }
        let additional = match schema.get("additionalProperties") {
            None if place.preserve || fields.is_empty() => Some(DEDUCED),
            None | Some(Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(DEDUCED),
            Some(schema) => Some(self.node(schema, place)?),
        };
        if flag(schema, EMBEDDED) {
            self.embed(&mut fields, place)?;
        }
        let free =
            additional == Some(DEDUCED) || additional.is_some_and(|node| self.is_untyped_in_place(node));
        let deduced = free && fields.is_empty();
        Ok(Map { fields, additional, atomic: atomicity(schema, place)? == Some(true), deduced })
    }

    /// Returns whether a node that is no reference accepts any scalar.
    fn is_untyped_in_place(&self, node: Node) -> bool {
        let named = self.nodes.values().any(|named| *named == node);
        !named
            && node != UNTYPED
            && self.atoms.get(node.0).is_some_and(|atom| atom.scalar == Some(Scalar::Untyped))
    }

    /// Adds the fields that every object has.
    fn embed(&mut self, fields: &mut BTreeMap<String, Field>, place: Place<'_>) -> Result<(), SchemaError> {
        let text = self.add(Atom { scalar: Some(Scalar::String), ..Atom::default() });
        let metadata = self.definitions.keys().find(|name| object_meta::is_name(name));
        let metadata = metadata.map_or(object_meta::NAME, String::as_str).to_owned();
        let metadata = self.named(&metadata, place.definition, None)?;
        for (name, node) in [("apiVersion", text), ("kind", text), ("metadata", metadata)] {
            fields.insert(name.to_owned(), Field { node, default: None });
        }
        Ok(())
    }
}

/// Returns the effect of a strategic merge patch on a list. Strategies other than `merge` have none on lists.
fn list_patch(schema: &Value) -> ListPatch {
    let text = |keyword: &str| schema.get(keyword).and_then(Value::as_str).unwrap_or_default();
    let merges = text(PATCH_STRATEGY).split(',').any(|strategy| strategy == "merge");
    match text(PATCH_MERGE_KEY) {
        _ if !merges => ListPatch::Replace,
        "" => ListPatch::MergeScalars,
        key => ListPatch::MergeBy(key.to_owned()),
    }
}

/// Returns the definition that a schema refers to: the last part of its `$ref`.
fn reference(schema: &Value) -> Option<&str> {
    let alone = match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only.get("$ref"),
        _ => None,
    };
    let path = schema.get("$ref").or(alone)?.as_str()?;
    path.rsplit('/').next().filter(|name| !name.is_empty())
}

fn flag(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword) == Some(&Value::Bool(true))
}

fn atomicity(schema: &Value, place: Place<'_>) -> Result<Option<bool>, SchemaError> {
    match schema.get(MAP_TYPE).map(|kind| kind.as_str().unwrap_or_default()) {
        None => Ok(None),
        Some("atomic") => Ok(Some(true)),
        Some("granular") => Ok(Some(false)),
        Some(other) => Err(place.unsupported(format!("unknown {MAP_TYPE} {other:?}"))),
    }
}

/// Applies the atomicity that a reference sets to the definition that it leads to.
fn override_atomicity(atom: &mut Atom, atomic: bool, place: Place<'_>) -> Result<(), SchemaError> {
    match atom {
        Atom { map: Some(map), .. } => map.atomic = atomic,
        Atom { list: Some(list), .. } if atomic => list.kind = ListKind::Atomic,
        _ => return Err(place.unsupported(format!("a reference sets {MAP_TYPE} of what is no map"))),
    }
    Ok(())
}
