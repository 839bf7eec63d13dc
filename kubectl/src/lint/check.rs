//! Problems of one object.

use evacuation_api::{
    EvacuationResponder, GROUP, default_evacuation_responder, manifest_problems,
    validate_evacuation_responder,
};
use kube::Resource;
use machinery_merge::{DecodeError, Parsed, Strictness, decode_parsed};
use machinery_validation::validate_metadata;
use serde_json::Value;

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
        manifest_problems(value)
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
