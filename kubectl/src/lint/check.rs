//! Problems of one object.

use std::collections::BTreeMap;

use evacuation_api::{
    EvacuationResponder, GROUP, REFRESH_AFTER_ANNOTATION, REFRESH_AFTER_RESTARTS_ANNOTATION,
    annotation_problems, default_evacuation_responder, is_own_annotation, validate_evacuation_responder,
};
use kube::Resource;
use machinery_merge::{DecodeError, Parsed, Strictness, decode_parsed};
use machinery_validation::validate_metadata;
use serde_json::{Map, Value};

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

/// Annotations that a Namespace may have, too.
const OF_NAMESPACES: [&str; 2] = [REFRESH_AFTER_ANNOTATION, REFRESH_AFTER_RESTARTS_ANNOTATION];

/// Adds the problems of a document, and of each object of a list, to `problems`; counts the objects.
pub(super) fn check(document: &Parsed, number: usize, objects: &mut usize, problems: &mut Vec<String>) {
    let duplicates =
        document.duplicate_fields.iter().map(|path| format!("document {number}: {path}: is given twice"));
    problems.extend(duplicates);
    check_value(&document.value, &format!("document {number}"), objects, problems);
}

fn check_value(value: &Value, place: &str, objects: &mut usize, problems: &mut Vec<String>) {
    let (version, kind) = (text(value, "/apiVersion"), text(value, "/kind"));
    if version.is_empty() || kind.is_empty() {
        problems.push(format!("{place}: is not an object of Kubernetes: apiVersion or kind is missing"));
        return;
    }
    if let Some(items) = value.get("items").and_then(Value::as_array).filter(|_| kind.ends_with("List")) {
        for (index, item) in items.iter().enumerate() {
            check_value(item, &format!("{place}, item {}", index + 1), objects, problems);
        }
        return;
    }
    *objects += 1;
    let found = if version.split('/').next() == Some(GROUP) {
        if kind == "EvacuationResponder" { responder_problems(value) } else { Vec::new() }
    } else {
        pod_problems(value, version, kind)
    };
    let object = object_name(value, kind, place);
    problems.extend(found.into_iter().map(|problem| format!("{object}: {problem}")));
}

/// The object as `KIND NAMESPACE/NAME`.
fn object_name(value: &Value, kind: &str, place: &str) -> String {
    let name = ["/metadata/name", "/metadata/generateName"].map(|path| text(value, path));
    let Some(name) = name.into_iter().find(|name| !name.is_empty()) else {
        return format!("{kind} without a name ({place})");
    };
    let namespace = text(value, "/metadata/namespace");
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{kind} {namespace}{slash}{name}").escape_debug().to_string()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The problems for which the server would refuse an EvacuationResponder.
fn responder_problems(value: &Value) -> Vec<String> {
    if text(value, "/apiVersion") != EvacuationResponder::api_version(&()) {
        return vec![format!("apiVersion: is not {}", EvacuationResponder::api_version(&()))];
    }
    let parsed = Parsed { value: value.clone(), ..Parsed::default() };
    let decoded = decode_parsed::<EvacuationResponder>(parsed, Strictness::Strict);
    let mut responder = match decoded {
        Ok(decoded) => decoded.value,
        Err(DecodeError::Strict { findings }) => return findings,
        Err(error) => return vec![error.to_string()],
    };
    let metadata = &mut responder.metadata;
    // The namespace is kubectl's, and the end of a generated name the server's.
    metadata.namespace.get_or_insert_with(|| "default".to_owned());
    if let Some(prefix) = &metadata.generate_name {
        metadata.name.get_or_insert_with(|| format!("{prefix}x"));
    }
    let mut errors = validate_metadata(metadata, true);
    default_evacuation_responder(&mut responder);
    errors.extend(validate_evacuation_responder(&responder));
    errors.iter().map(ToString::to_string).collect()
}

/// The problems of the project's annotations, wherever an object has them.
fn pod_problems(value: &Value, version: &str, kind: &str) -> Vec<String> {
    let place = PODS.iter().find(|known| (known.0, known.1) == (version, kind)).map(|known| known.2);
    let mut problems = Vec::new();
    walk(value, "", &mut |path, annotations| match (place, version, kind) {
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
