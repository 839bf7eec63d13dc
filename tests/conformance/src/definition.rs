//! The custom resource of the example kind's schema, made from its OpenAPI document.

use anyhow::Context;
use serde_json::{Map, Value, json};

use crate::{GROUP, ORACLE_GROUP};

/// Extensions that a CustomResourceDefinition may not have.
const DROPPED: [&str; 4] = [
    "x-kubernetes-group-version-kind",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-unions",
];

/// Description of the age of built-in kinds, and of scales.
const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is \
    not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It \
    is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Returns the definition of the custom resource from the OpenAPI v3 document of the example kind.
///
/// # Errors
///
/// The document has no schema of the kind.
pub fn definition(document: &Value) -> anyhow::Result<Value> {
    let schemas = document.pointer("/components/schemas").and_then(Value::as_object).context("no schemas")?;
    let reversed: Vec<&str> = GROUP.split('.').rev().collect();
    let root = format!("{}.v1.Fleet", reversed.join("."));
    let mut schema = inline(schemas.get(&root).with_context(|| format!("no schema {root}"))?, schemas);
    if let Some(metadata) = schema.pointer_mut("/properties/metadata") {
        *metadata = json!({"type": "object"});
    }
    Ok(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("fleets.{ORACLE_GROUP}")},
        "spec": {
            "group": ORACLE_GROUP, "scope": "Namespaced",
            "names": {
                "kind": "Fleet", "listKind": "FleetList", "plural": "fleets", "singular": "fleet",
                "shortNames": ["fl"], "categories": ["transport"],
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                    "labelSelectorPath": ".status.selector",
                }},
                "selectableFields": [{"jsonPath": ".spec.depot"}],
                "additionalPrinterColumns": columns(),
            }],
        },
    }))
}

/// Returns the columns of the example kind, and the age, which custom resources do not have by themselves.
fn columns() -> Value {
    let column = |name: &str, kind: &str, path: &str, description: &str, priority: i32| {
        let mut column = json!({"name": name, "type": kind, "jsonPath": path, "description": description});
        if let Some(fields) = column.as_object_mut().filter(|_| priority > 0) {
            fields.insert("priority".to_owned(), json!(priority));
        }
        column
    };
    json!([
        column("Depot", "string", ".spec.depot", "Depot of the vehicles.", 0),
        column("Desired", "integer", ".spec.replicas", "Number of vehicles that are to be on the road.", 0),
        column("Current", "integer", ".status.replicas", "Number of vehicles on the road.", 0),
        column("Replacement", "string", ".spec.replacement", "Order in which vehicles are replaced.", 1),
        column("Age", "date", ".metadata.creationTimestamp", AGE, 0),
    ])
}

/// Returns a schema without references.
fn inline(schema: &Value, schemas: &Map<String, Value>) -> Value {
    match schema {
        Value::Object(fields) => {
            let only = fields.get("allOf").and_then(|parts| parts.get(0)).unwrap_or(schema);
            let reference = only.get("$ref").and_then(Value::as_str);
            let name = reference.and_then(|reference| reference.rsplit('/').next());
            let mut inlined =
                match name.and_then(|name| schemas.get(name)).map(|found| inline(found, schemas)) {
                    Some(Value::Object(fields)) => fields,
                    _ => Map::new(),
                };
            for (name, value) in fields {
                if !DROPPED.contains(&name.as_str())
                    && name != "$ref"
                    && !(name == "allOf" && reference.is_some())
                {
                    inlined.insert(name.clone(), inline(value, schemas));
                }
            }
            Value::Object(inlined)
        }
        Value::Array(values) => values.iter().map(|value| inline(value, schemas)).collect(),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_by_what_they_refer_to() {
        let document = json!({"components": {"schemas": {
            "dev.machinery.example.v1.Fleet": {"type": "object", "x-kubernetes-group-version-kind": [], "properties": {
                "metadata": {"allOf": [{"$ref": "#/components/schemas/Meta"}]},
                "spec": {"description": "Mine.", "allOf": [{"$ref": "#/components/schemas/Spec"}]},
            }},
            "Spec": {"description": "Any.", "type": "object"},
            "Meta": {"type": "object", "properties": {}},
        }}});
        let definition = definition(&document).expect("a definition");
        assert_eq!(
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
            json!({"type": "object", "properties": {
                "metadata": {"type": "object"},
                "spec": {"description": "Mine.", "type": "object"},
            }})
        );
    }
}
