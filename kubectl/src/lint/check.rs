//! Problems of one object.

use std::borrow::Cow;

use evacuation_api::{DOMAIN, GROUP, manifest_problems};
use machinery_merge::Parsed;
use serde_json::Value;

use super::{checked::Checked, kinds::kind_problems};

/// API group of the files of kustomize, which no cluster has.
const KUSTOMIZE_GROUP: &str = "kustomize.config.k8s.io";

/// Returns the reason for which a document is no object of Kubernetes. `None` for an object.
pub(super) fn foreign(value: &Value) -> Option<&'static str> {
    let (version, kind) = (text(value, "/apiVersion"), text(value, "/kind"));
    if version.is_empty() || kind.is_empty() {
        return Some("apiVersion or kind is missing");
    }
    (group_of(version) == KUSTOMIZE_GROUP).then_some("it is a file of kustomize, which reads its folder")
}

/// Adds the problems of an object, and of each object of a list, to `problems`; counts the objects.
pub(super) fn check(document: &Parsed, number: usize, objects: &mut Checked, problems: &mut Vec<String>) {
    let duplicates =
        document.duplicate_fields.iter().map(|path| format!("document {number}: {path}: is given twice"));
    problems.extend(duplicates);
    check_value(&document.value, &format!("document {number}"), objects, problems);
}

fn check_value(value: &Value, place: &str, objects: &mut Checked, problems: &mut Vec<String>) {
    if let Some(reason) = foreign(value) {
        problems.push(format!("{place}: is not an object of Kubernetes: {reason}"));
        return;
    }
    let (version, kind) = (text(value, "/apiVersion"), text(value, "/kind"));
    if let Some(items) = value.get("items").and_then(Value::as_array).filter(|_| kind.ends_with("List")) {
        for (index, item) in items.iter().enumerate() {
            let item = typed(item, version, kind.trim_end_matches("List"));
            check_value(&item, &format!("{place}, item {}", index + 1), objects, problems);
        }
        return;
    }
    let group = group_of(version);
    if group != GROUP && group.ends_with(&format!(".{DOMAIN}")) {
        objects.leave_kind(kind);
        return;
    }
    objects.number += 1;
    let found = if group == GROUP { kind_problems(value, version, kind) } else { manifest_problems(value) };
    let object = object_name(value, kind, place);
    problems.extend(found.into_iter().map(|problem| format!("{object}: {problem}")));
}

/// Returns an item of a list such as `PodList`, whose items may leave out their kind.
fn typed<'a>(item: &'a Value, version: &str, kind: &str) -> Cow<'a, Value> {
    let is_typed = item.get("kind").is_some() || item.get("apiVersion").is_some();
    let mut item = Cow::Borrowed(item);
    if !is_typed
        && !kind.is_empty()
        && item.is_object()
        && let Some(fields) = item.to_mut().as_object_mut()
    {
        fields.insert("apiVersion".to_owned(), version.into());
        fields.insert("kind".to_owned(), kind.into());
    }
    item
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

fn group_of(version: &str) -> &str {
    version.split_once('/').map_or("", |(group, _)| group)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
