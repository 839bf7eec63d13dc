//! The metadata of every object, with Kubernetes' own list types.

use serde_json::{Map, Value, json};

/// Name of the definition of metadata.
pub(crate) const NAME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Returns whether a definition is that of metadata.
pub(crate) fn is_name(name: &str) -> bool {
    name == NAME
}

/// Returns the definition with the keywords of merging that it lacks, or the whole definition when there is
/// none.
pub(crate) fn complete(definition: Option<&Value>) -> Value {
    let fields = definition.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let Some((mut schema, false)) = definition.cloned().zip(fields.map(Map::is_empty)) else {
        return whole();
    };
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        for (name, keywords) in list_keywords() {
            let list = fields.get_mut(name).and_then(Value::as_object_mut);
            if let Some(list) = list.filter(|list| !list.contains_key("x-kubernetes-list-type")) {
                list.extend(keywords);
            }
        }
        let references = fields.get_mut("ownerReferences").and_then(|list| list.get_mut("items"));
        if let Some(Value::Object(items)) = references {
            items.entry("x-kubernetes-map-type").or_insert_with(|| "atomic".into());
        }
    }
    schema
}

fn list_keywords() -> [(&'static str, Map<String, Value>); 3] {
    let keywords = |kind: &str| Map::from_iter([("x-kubernetes-list-type".to_owned(), kind.into())]);
    let mut references = keywords("map");
    references.insert("x-kubernetes-list-map-keys".to_owned(), json!(["uid"]));
    [("ownerReferences", references), ("finalizers", keywords("set")), ("managedFields", keywords("atomic"))]
}

fn whole() -> Value {
    let text = || json!({"type": "string"});
    let time = || json!({"type": "string", "format": "date-time"});
    let texts = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let whole = json!({"type": "object", "properties": {
        "annotations": texts(),
        "creationTimestamp": time(),
        "deletionGracePeriodSeconds": {"type": "integer"},
        "deletionTimestamp": time(),
        "finalizers": {"type": "array", "items": text()},
        "generateName": text(),
        "generation": {"type": "integer"},
        "labels": texts(),
        "managedFields": {"type": "array", "items": {"type": "object", "properties": {
            "apiVersion": text(),
            "fieldsType": text(),
            "fieldsV1": {"type": "object"},
            "manager": text(),
            "operation": text(),
            "subresource": text(),
            "time": time(),
        }}},
        "name": text(),
        "namespace": text(),
        "ownerReferences": {"type": "array", "items": {"type": "object", "properties": {
            "apiVersion": text(),
            "blockOwnerDeletion": {"type": "boolean"},
            "controller": {"type": "boolean"},
            "kind": text(),
            "name": text(),
            "uid": text(),
        }}},
        "resourceVersion": text(),
        "selfLink": text(),
        "uid": text(),
    }});
    complete(Some(&whole))
}
