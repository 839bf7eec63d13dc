//! Problems of the project's annotations in manifests of Kubernetes' kinds.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    REFRESH_AFTER_ANNOTATION, REFRESH_AFTER_RESTARTS_ANNOTATION, RESPONDERS_ANNOTATION, ResponderEntry,
    annotation_problems, is_own_annotation, parse_responders,
};

/// Paths of the pods' metadata in the kinds of Kubernetes.
const PODS: [(&str, &str, &str); 9] = [
    ("v1", "Pod", "metadata"),
    ("v1", "PodTemplate", "template.metadata"),
    ("v1", "ReplicationController", "spec.template.metadata"),
    ("apps/v1", "DaemonSet", "spec.template.metadata"),
    ("apps/v1", "Deployment", "spec.template.metadata"),
    ("apps/v1", "ReplicaSet", "spec.template.metadata"),
    ("apps/v1", "StatefulSet", "spec.template.metadata"),
    ("batch/v1", "CronJob", "spec.jobTemplate.spec.template.metadata"),
    ("batch/v1", "Job", "spec.template.metadata"),
];

/// Places of the pods' metadata in kinds of others.
const TEMPLATES: [&str; 3] =
    ["spec.template.metadata", "template.metadata", "spec.jobTemplate.spec.template.metadata"];

/// Annotations that a Namespace may have, too.
const OF_NAMESPACES: [&str; 2] = [REFRESH_AFTER_ANNOTATION, REFRESH_AFTER_RESTARTS_ANNOTATION];

/// Returns the path of the pods' metadata in an object of that kind. `None` for a kind without pods.
fn place_of(version: &str, kind: &str) -> Option<&'static str> {
    PODS.iter().find(|known| (known.0, known.1) == (version, kind)).map(|known| known.2)
}

/// Returns the responders that the pods of an object name in their annotation. None when the annotation
/// cannot be read, or when the object has no pods.
pub fn manifest_responders(value: &Value) -> Vec<ResponderEntry> {
    let Some(place) = place_of(text(value, "/apiVersion"), text(value, "/kind")) else {
        return Vec::new();
    };
    let annotations = field(value, place).and_then(|metadata| metadata.get("annotations"));
    let written = annotations.and_then(|all| all.get(RESPONDERS_ANNOTATION)).and_then(Value::as_str);
    written.and_then(|written| parse_responders(written).ok()).unwrap_or_default()
}

/// Returns the field at a path.
fn field<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, field| value.get(field))
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the problems of the project's annotations, wherever an object has them. Each begins with the path
/// of the annotation. A copy beside the one of the pods' template has no effect, and is no mistake.
pub fn manifest_problems(value: &Value) -> Vec<String> {
    let (version, kind) = (text(value, "/apiVersion"), text(value, "/kind"));
    let place = place_of(version, kind);
    let of_pods = place.or_else(|| TEMPLATES.into_iter().find(|place| field(value, place).is_some()));
    let template = of_pods.and_then(|place| field(value, place)?.get("annotations"));
    let is_copy = |key: &str, written: &Value| template.and_then(|all| all.get(key)) == Some(written);
    let mut problems = Vec::new();
    walk(value, "", &mut |path, mut annotations| {
        if of_pods != Some(path) {
            annotations.retain(|key, written| !is_copy(key, written));
        }
        match (place, version, kind) {
            (Some(place), ..) if place != path => {
                let misplaced = annotations.keys().map(|key| {
                    format!("{path}.annotations[{key}]: has no effect here, but in {place}.annotations")
                });
                problems.extend(misplaced);
            }
            (None, "v1", "Namespace") => {
                let (read, misplaced): (Map<_, _>, Map<_, _>) =
                    annotations.into_iter().partition(|(key, _)| OF_NAMESPACES.contains(&key.as_str()));
                problems.extend(value_problems(path, &read));
                let misplaced = misplaced.keys();
                problems.extend(
                    misplaced.map(|key| format!("{path}.annotations[{key}]: has no effect on a Namespace")),
                );
            }
            // The controller's own records.
            (None, "v1", "Node") => {}
            _ => problems.extend(value_problems(path, &annotations)),
        }
    });
    problems
}

fn value_problems(path: &str, annotations: &Map<String, Value>) -> Vec<String> {
    let mut texts = BTreeMap::new();
    let mut problems = Vec::new();
    for (key, value) in annotations {
        match value {
            Value::String(text) => drop(texts.insert(key.clone(), text.clone())),
            _ => problems.push(format!("{path}.annotations[{key}]: must be a string: put it in quotes")),
        }
    }
    let found = annotation_problems(&texts);
    problems.extend(
        found.iter().map(|found| format!("{path}.annotations[{}]: {}", found.annotation, found.problem)),
    );
    problems
}

/// Calls `found` with the path of each `metadata` in a value that has annotations of the project, and with
/// these.
fn walk(value: &Value, path: &str, found: &mut impl FnMut(&str, Map<String, Value>)) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                if name == "metadata" {
                    let annotations = field.get("annotations").and_then(Value::as_object);
                    let own = annotations.into_iter().flatten().filter(|(key, _)| is_own_annotation(key));
                    let own: Map<_, _> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
                    if !own.is_empty() {
                        found(&path, own);
                    }
                } else {
                    walk(field, &path, found);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_responders_of_a_workload_are_those_of_its_template() {
        let annotations = json!({"evacuation.dev/responders": r#"[{"name":"db.acme.io/failover"}]"#});
        let deployment = |metadata: Value, template: Value| {
            let spec = json!({"template": {"metadata": template}});
            let value =
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec});
            manifest_responders(&value).into_iter().map(|entry| entry.name).collect::<Vec<_>>()
        };
        assert_eq!(deployment(json!({}), json!({"annotations": annotations})), ["db.acme.io/failover"]);
        assert_eq!(deployment(json!({"annotations": annotations}), json!({})), Vec::<String>::new());
        let other =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": annotations}});
        assert!(manifest_responders(&other).is_empty());
    }
}
