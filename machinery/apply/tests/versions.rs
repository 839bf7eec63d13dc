//! Managers that write in different API versions of a kind: `title` of v1 is `heading` of v2.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panic, and has literals"
)]

mod fixture;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry, jiff::Timestamp};
use machinery_apply::{ApplyError, FieldSet, Versions, Writer, apply, track};
use machinery_schema::Schema;
use serde_json::{Value, json};

const V1: &str = "example.com/v1";
const V2: &str = "example.com/v2";

/// The two versions. Both require the title.
struct Both {
    v1: Schema,
    v2: Schema,
}

impl Versions for Both {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        match api_version {
            V1 => Some(&self.v1),
            V2 => Some(&self.v2),
            _ => None,
        }
    }

    fn convert(&self, document: &Value, whole: &Value, from: &str, to: &str) -> Result<Value, String> {
        let (old, new) = if from == V1 { ("title", "heading") } else { ("heading", "title") };
        let mut converted = document.clone();
        converted["apiVersion"] = to.into();
        if let Some(spec) = converted.get_mut("spec").and_then(Value::as_object_mut) {
            let title = spec.remove(old).or_else(|| whole["spec"].get(old).cloned());
            spec.insert(new.to_owned(), title.ok_or("it has no title")?);
        }
        Ok(converted)
    }
}

/// An object, stored in v1.
struct Object {
    versions: Both,
    live: Value,
}

impl Object {
    /// The object that `a` applied in v1.
    fn applied(spec: Value) -> Self {
        let empty = json!({"apiVersion": V1, "kind": "Root"});
        let v2 = fixture::schema(&json!({"heading": {"type": "string"}}));
        let mut object = Self { versions: Both { v1: fixture::schema(&json!({})), v2 }, live: empty };
        object.apply("a", V1, spec).expect("applied");
        object
    }

    fn in_version(&self, document: &Value, from: &str, to: &str) -> Value {
        if from == to || document.get("metadata").is_none() {
            return json!({"apiVersion": to, "kind": "Root"}).as_object().map_or(Value::Null, |empty| {
                let mut whole = document.clone();
                whole.as_object_mut().expect("an object").extend(empty.clone());
                whole
            });
        }
        self.versions.convert(document, document, from, to).expect("a document of the other version")
    }

    fn apply(&mut self, manager: &str, version: &str, spec: Value) -> Result<(), ApplyError> {
        let live = self.in_version(&self.live, V1, version);
        let applied = json!({"apiVersion": version, "kind": "Root", "metadata": {"name": "x"}, "spec": spec});
        let writer = Writer { manager, api_version: version, subresource: "", now: Timestamp::UNIX_EPOCH };
        let merged = apply(&self.versions, Some(&live), &applied, &writer, false, &FieldSet::new())?;
        self.store(&merged.object, version, &merged.managed_fields);
        Ok(())
    }

    fn update(&mut self, manager: &str, version: &str, change: impl Fn(&mut Value)) {
        let live = self.in_version(&self.live, V1, version);
        let mut new = live.clone();
        change(&mut new["spec"]);
        let writer = Writer { manager, api_version: version, subresource: "", now: Timestamp::UNIX_EPOCH };
        let entries =
            track(&self.versions, Some(&live), &new, &writer, &FieldSet::new()).expect("the ownership");
        self.store(&new, version, &entries);
    }

    fn store(&mut self, object: &Value, version: &str, entries: &[ManagedFieldsEntry]) {
        let mut object = self.in_version(object, version, V1);
        object["metadata"]["uid"] = "1".into();
        object["metadata"]["managedFields"] = json!(entries);
        self.live = object;
    }

    /// Who owns which fields of the spec, in which version.
    fn owners(&self) -> Vec<String> {
        let entries = self.live["metadata"]["managedFields"].as_array().expect("entries");
        let owner = |entry: &Value| {
            let fields = entry["fieldsV1"]["f:spec"].as_object().expect("fields");
            let fields: Vec<&str> = fields.keys().map(|name| name.trim_start_matches("f:")).collect();
            let version = entry["apiVersion"].as_str().expect("a version").trim_start_matches("example.com/");
            format!("{} {version} {}", entry["manager"].as_str().expect("a name"), fields.join(","))
        };
        let mut owners: Vec<String> = entries.iter().map(owner).collect();
        owners.sort();
        owners
    }
}

#[test]
fn a_manager_keeps_its_fields_when_others_write_other_fields_in_another_version() {
    let mut object = Object::applied(json!({"title": "x"}));
    object.update("b", V2, |spec| spec["replicas"] = 1.into());
    assert_eq!(object.owners(), ["a v1 title", "b v2 replicas"]);
}

#[test]
fn a_manager_loses_a_field_that_another_changes_under_its_other_name() {
    let mut object = Object::applied(json!({"title": "x", "replicas": 1}));
    object.update("b", V2, |spec| spec["heading"] = "y".into());
    assert_eq!(object.owners(), ["a v1 replicas", "b v2 heading"]);
    assert_eq!(object.live["spec"], json!({"title": "y", "replicas": 1}));
}

#[test]
fn an_apply_conflicts_with_the_owner_of_the_same_field_in_another_version() {
    let mut object = Object::applied(json!({"title": "x"}));
    let error = object.apply("b", V2, json!({"heading": "y"})).expect_err("a conflict");
    assert!(error.to_string().contains(r#"conflict with "a": .spec.title"#), "{error}");
    object.apply("b", V2, json!({"heading": "x", "replicas": 1})).expect("the same value");
    assert_eq!(object.owners(), ["a v1 title", "b v2 heading,replicas"]);
}

#[test]
fn a_manager_that_applies_in_another_version_than_before_removes_what_it_leaves_out() {
    let mut object = Object::applied(json!({"title": "x", "replicas": 1, "args": ["y"]}));
    object.apply("a", V2, json!({"heading": "x", "args": ["y"]})).expect("applied");
    assert_eq!(object.live["spec"], json!({"title": "x", "args": ["y"]}));
    assert_eq!(object.owners(), ["a v2 args,heading"]);
}

#[test]
fn a_field_that_an_owner_of_another_version_has_is_not_removed() {
    let mut object = Object::applied(json!({"title": "x", "replicas": 1}));
    object.apply("b", V2, json!({"heading": "x", "replicas": 1})).expect("applied");
    object.apply("a", V1, json!({"title": "x"})).expect("applied");
    assert_eq!(object.live["spec"], json!({"title": "x", "replicas": 1}));
    assert_eq!(object.owners(), ["a v1 title", "b v2 heading,replicas"]);
}

#[test]
fn a_manager_of_a_version_that_is_not_served_any_more_is_forgotten() {
    let mut object = Object::applied(json!({"title": "x"}));
    object.live["metadata"]["managedFields"][0]["apiVersion"] = "example.com/v0".into();
    object.update("b", V1, |spec| spec["replicas"] = 1.into());
    assert_eq!(object.owners(), ["b v1 replicas"]);
}

#[test]
fn a_version_that_is_not_served_cannot_be_written() {
    let object = Object::applied(json!({"title": "x"}));
    let writer = Writer { manager: "a", api_version: "v9", subresource: "", now: Timestamp::UNIX_EPOCH };
    let error =
        track(&object.versions, None, &object.live, &writer, &FieldSet::new()).expect_err("a failure");
    assert_eq!(error.code(), 500);
    assert!(error.to_string().contains("version v9: it is not served"), "{error}");
}
