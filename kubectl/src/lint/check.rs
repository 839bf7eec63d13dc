//! Problems of one object.

use evacuation_api::{DOMAIN, GROUP, manifest_problems};
use machinery_merge::Parsed;
use serde_json::Value;

use super::{Checked, kinds::kind_problems};

/// Adds the problems of a document, and of each object of a list, to `problems`; counts the objects.
pub(super) fn check(document: &Parsed, number: usize, objects: &mut Checked, problems: &mut Vec<String>) {
    let duplicates =
        document.duplicate_fields.iter().map(|path| format!("document {number}: {path}: is given twice"));
    problems.extend(duplicates);
    check_value(&document.value, &format!("document {number}"), objects, problems);
}

fn check_value(value: &Value, place: &str, objects: &mut Checked, problems: &mut Vec<String>) {
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
    let group = version.split_once('/').map_or("", |(group, _)| group);
    if group != GROUP && group.ends_with(&format!(".{DOMAIN}")) {
        objects.unchecked.insert(kind.escape_debug().to_string());
        return;
    }
    objects.number += 1;
    let found = if group == GROUP { kind_problems(value, version, kind) } else { manifest_problems(value) };
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
