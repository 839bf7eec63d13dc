//! Problems of one object.

use std::borrow::Cow;

use evacuation_api::{
    APISERVER_DOMAIN, DOMAIN, GATEWAY_DOMAIN, GROUP, GatewayConfiguration, NegotiationSettingsFile,
    manifest_problems,
};
use machinery_merge::Parsed;
use serde_json::Value;

use super::{
    checked::Checked,
    kinds::{file_problems, kind_problems},
};
use crate::documents::documents;

/// API group of the files of kustomize, which no cluster has.
const KUSTOMIZE_GROUP: &str = "kustomize.config.k8s.io";

/// Groups and kinds of the files that processes read at their start.
const FILES: [(&str, &str); 2] =
    [(GATEWAY_DOMAIN, GatewayConfiguration::KIND), (APISERVER_DOMAIN, NegotiationSettingsFile::KIND)];

/// Returns the reason for which a document is no object of Kubernetes. `None` for an object.
pub(super) fn foreign(value: &Value) -> Option<&'static str> {
    let (version, kind) = (text(value, "/apiVersion"), text(value, "/kind"));
    if version.is_empty() || kind.is_empty() {
        return Some("apiVersion or kind is missing");
    }
    (group_of(version) == KUSTOMIZE_GROUP).then_some("it is a file of kustomize, which reads its folder")
}

/// Adds the problems of an object, and of each object of a list, to `problems`; counts the objects. `text` is
/// all that the document's file holds.
pub(super) fn check(
    document: &Parsed,
    text: &str,
    number: usize,
    objects: &mut Checked,
    problems: &mut Vec<String>,
) {
    let (group, kind) = group_and_kind(&document.value);
    if let Some(found) = file_problems(group, text) {
        objects.number += 1;
        problems.extend(found.into_iter().map(|problem| format!("{}: {problem}", kind.escape_debug())));
        return;
    }
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
    let mut found =
        if group == GROUP { kind_problems(value, version, kind) } else { manifest_problems(value) };
    if (version, kind) == ("v1", "ConfigMap") {
        found.extend(data_problems(value));
    }
    let object = object_name(value, kind, place);
    problems.extend(found.into_iter().map(|problem| format!("{object}: {problem}")));
}

/// Returns the problems of the files of processes in a ConfigMap.
fn data_problems(config_map: &Value) -> Vec<String> {
    let data = config_map.get("data").and_then(Value::as_object).into_iter().flatten();
    let files = data.filter_map(|(name, text)| {
        let text = text.as_str()?;
        let read: Vec<_> = documents(text).collect();
        let of_documents = read.iter().flatten().find_map(|document| group_of_file(&document.value));
        let is_broken = read.iter().any(Result::is_err);
        let of_lines = || text.lines().filter(|_| is_broken).find_map(group_of_line);
        let found = of_documents.or_else(of_lines).and_then(|group| file_problems(group, text))?;
        Some(found.into_iter().map(move |problem| format!("data[{name}]: {problem}")))
    });
    files.flatten().collect()
}

/// Returns the group of a file that a process reads. One without an `apiVersion` shows it by its kind.
fn group_of_file(value: &Value) -> Option<&'static str> {
    let (version, kind) = (text(value, "/apiVersion"), text(value, "/kind"));
    let is_of =
        |(group, file): &&(&str, &str)| group_of(version) == *group || (version.is_empty() && kind == *file);
    FILES.iter().find(is_of).map(|(group, _)| *group)
}

/// Returns the group that a line of a file names as its `apiVersion`.
fn group_of_line(line: &str) -> Option<&'static str> {
    let version = line.trim_start().strip_prefix("apiVersion:")?.trim().trim_matches(['"', '\'']);
    FILES.iter().find(|(group, _)| group_of(version) == *group).map(|(group, _)| *group)
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

fn group_and_kind(value: &Value) -> (&str, &str) {
    (group_of(text(value, "/apiVersion")), text(value, "/kind"))
}

fn group_of(version: &str) -> &str {
    version.split_once('/').map_or("", |(group, _)| group)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
