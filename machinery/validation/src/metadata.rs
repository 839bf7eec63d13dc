//! The metadata of an object. Source of the rules: `k8s.io/apimachinery/pkg/api/validation/objectmeta.go`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::{
    FieldError, FieldErrorKind, FieldPath, dns1123_label, dns1123_subdomain, generate_name, label_value,
    qualified_name,
};

/// The most that the keys and values of all annotations may have together, in bytes.
const ANNOTATIONS_SIZE: usize = 256 * 1024;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Returns every error of an object's metadata. A name must have been generated before.
pub fn validate_metadata(metadata: &ObjectMeta, namespaced: bool) -> Vec<FieldError> {
    let path = FieldPath::new("metadata");
    let mut errors = Vec::new();
    if let Some(prefix) = metadata.generate_name.as_deref().filter(|prefix| !prefix.is_empty()) {
        let field = path.child("generateName");
        errors
            .extend(generate_name(prefix).iter().map(|problem| FieldError::invalid(&field, prefix, problem)));
    }
    match metadata.name.as_deref().unwrap_or_default() {
        "" => errors.push(FieldError::required(&path.child("name"), "name or generateName is required")),
        name => {
            let field = path.child("name");
            errors.extend(
                dns1123_subdomain(name).iter().map(|problem| FieldError::invalid(&field, name, problem)),
            );
        }
    }
    errors.extend(namespace(
        metadata.namespace.as_deref().unwrap_or_default(),
        namespaced,
        &path.child("namespace"),
    ));
    if let Some(all) = &metadata.labels {
        errors.extend(labels(all, &path.child("labels")));
    }
    if let Some(all) = &metadata.annotations {
        errors.extend(annotations(all, &path.child("annotations")));
    }
    errors.extend(owners(
        metadata.owner_references.as_deref().unwrap_or_default(),
        &path.child("ownerReferences"),
    ));
    errors.extend(finalizers(metadata.finalizers.as_deref().unwrap_or_default(), &path.child("finalizers")));
    errors
}

/// Returns every error of a change of an object's metadata, besides those that [`validate_metadata`] finds:
/// fields that never change, and finalizers that come too late.
pub fn validate_metadata_update(new: &ObjectMeta, old: &ObjectMeta) -> Vec<FieldError> {
    let path = FieldPath::new("metadata");
    let mut errors = Vec::new();
    if old.deletion_timestamp.is_some() {
        let before: BTreeSet<&String> = old.finalizers.iter().flatten().collect();
        let late: BTreeSet<&String> =
            new.finalizers.iter().flatten().filter(|name| !before.contains(name)).collect();
        if !late.is_empty() {
            let message = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{late:?}"
            );
            errors.push(FieldError::forbidden(&path.child("finalizers"), message));
        }
    }
    let immutable = |field: &str, new: Option<String>, old: Option<String>| {
        let (new, old) = (new.unwrap_or_default(), old.unwrap_or_default());
        (new != old).then(|| FieldError::invalid(&path.child(field), &new, "field is immutable"))
    };
    let time = |time: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        time.as_ref().map(|time| time.0.to_string())
    };
    errors.extend(immutable("name", new.name.clone(), old.name.clone()));
    errors.extend(immutable("namespace", new.namespace.clone(), old.namespace.clone()));
    errors.extend(immutable("uid", new.uid.clone(), old.uid.clone()));
    errors.extend(immutable(
        "creationTimestamp",
        time(&new.creation_timestamp),
        time(&old.creation_timestamp),
    ));
    errors.extend(immutable(
        "deletionTimestamp",
        time(&new.deletion_timestamp),
        time(&old.deletion_timestamp),
    ));
    if new.deletion_grace_period_seconds != old.deletion_grace_period_seconds {
        let message =
            format!("{}: field is immutable", new.deletion_grace_period_seconds.unwrap_or_default());
        let field = path.child("deletionGracePeriodSeconds");
        errors.push(FieldError::new(FieldErrorKind::Invalid, &field, message));
    }
    errors
}

fn namespace(namespace: &str, namespaced: bool, field: &FieldPath) -> Vec<FieldError> {
    match (namespaced, namespace) {
        (true, "") => vec![FieldError::required(field, "")],
        (true, name) => {
            dns1123_label(name).iter().map(|problem| FieldError::invalid(field, name, problem)).collect()
        }
        (false, "") => Vec::new(),
        (false, _) => vec![FieldError::forbidden(field, "not allowed on this type")],
    }
}

fn labels(labels: &BTreeMap<String, String>, field: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels {
        errors.extend(qualified_name(key).iter().map(|problem| FieldError::invalid(field, key, problem)));
        errors.extend(label_value(value).iter().map(|problem| FieldError::invalid(field, value, problem)));
    }
    errors
}

fn annotations(annotations: &BTreeMap<String, String>, field: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in annotations.keys() {
        // The rule is that of qualified names, but upper case is allowed in the prefix, too.
        let lower = key.to_lowercase();
        errors.extend(qualified_name(&lower).iter().map(|problem| FieldError::invalid(field, key, problem)));
    }
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > ANNOTATIONS_SIZE {
        errors.push(FieldError::too_long(field, ANNOTATIONS_SIZE));
    }
    errors
}

fn owners(owners: &[OwnerReference], field: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<&OwnerReference> = None;
    for (index, owner) in owners.iter().enumerate() {
        let field = field.index(index);
        let given = [
            ("apiVersion", &owner.api_version),
            ("kind", &owner.kind),
            ("name", &owner.name),
            ("uid", &owner.uid),
        ];
        for (name, value) in given {
            if value.is_empty() {
                errors.push(FieldError::required(&field.child(name), "must not be empty"));
            }
        }
        if owner.api_version.ends_with('/') || owner.api_version.matches('/').count() > 1 {
            let message = "must be <group>/<version> or <version>";
            errors.push(FieldError::invalid(&field.child("apiVersion"), &owner.api_version, message));
        }
        if owner.api_version == "v1" && owner.kind == "Event" {
            let message = "events are disallowed from being an owner";
            errors.push(FieldError::new(FieldErrorKind::Invalid, &field, message));
        }
        if owner.controller == Some(true) {
            if let Some(first) = controller {
                let message = format!(
                    "only one reference can have controller set to true, found it in references for {}/{} and {}/{}",
                    first.kind, first.name, owner.kind, owner.name
                );
                errors.push(FieldError::new(FieldErrorKind::Invalid, &field, message));
            } else {
                controller = Some(owner);
            }
        }
    }
    errors
}

fn finalizers(finalizers: &[String], field: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for name in finalizers {
        errors.extend(qualified_name(name).iter().map(|problem| FieldError::invalid(field, name, problem)));
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has(ORPHAN) && has(FOREGROUND) {
        let all: Vec<String> = finalizers.iter().map(|finalizer| format!("{finalizer:?}")).collect();
        let all = all.join(",");
        let message = format!("[{all}]: finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.push(FieldError::new(FieldErrorKind::Invalid, field, message));
    }
    errors
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn good() -> ObjectMeta {
        ObjectMeta { name: Some("a".into()), namespace: Some("shop".into()), ..ObjectMeta::default() }
    }

    fn text(errors: &[FieldError]) -> String {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn metadata_is_judged_field_by_field() {
        type Edit = fn(&mut ObjectMeta);
        let cases: Vec<(Edit, &str)> = vec![
            (|_| {}, ""),
            (|m| m.name = None, "metadata.name: Required value"),
            (|m| m.name = Some("A".into()), "metadata.name: Invalid value: \"A\""),
            (|m| m.generate_name = Some("a-".into()), ""),
            (|m| m.generate_name = Some(format!("{}-", "a".repeat(253))), ""),
            (|m| m.generate_name = Some("-a".into()), "metadata.generateName: Invalid value"),
            (|m| m.namespace = None, "metadata.namespace: Required value"),
            (|m| m.namespace = Some("a.b".into()), "metadata.namespace: Invalid value"),
            (
                |m| m.labels = Some([("a b".into(), "c".into())].into()),
                "metadata.labels: Invalid value: \"a b\"",
            ),
            (
                |m| m.labels = Some([("a".into(), "c d".into())].into()),
                "metadata.labels: Invalid value: \"c d\"",
            ),
            (|m| m.annotations = Some([("ACME.io/x".into(), "any text".into())].into()), ""),
            (
                |m| m.annotations = Some([("a b".into(), "c".into())].into()),
                "metadata.annotations: Invalid value",
            ),
            (
                |m| m.annotations = Some([("a".into(), "x".repeat(256 * 1024))].into()),
                "metadata.annotations: Too long",
            ),
            (|m| m.finalizers = Some(vec!["acme.io/f".into()]), ""),
            (|m| m.finalizers = Some(vec!["a//b".into()]), "metadata.finalizers: Invalid value"),
            (
                |m| m.finalizers = Some(vec!["orphan".into(), "foregroundDeletion".into()]),
                "cannot be both set",
            ),
            (
                |m| m.owner_references = Some(vec![OwnerReference::default()]),
                "metadata.ownerReferences[0].uid: Required value",
            ),
            (
                |m| {
                    let owner = OwnerReference {
                        api_version: "v1".into(),
                        kind: "Pod".into(),
                        name: "p".into(),
                        uid: "u".into(),
                        controller: Some(true),
                        ..OwnerReference::default()
                    };
                    m.owner_references = Some(vec![owner.clone(), owner]);
                },
                "metadata.ownerReferences[1]: Invalid value: only one",
            ),
        ];
        for (edit, expected) in cases {
            let mut metadata = good();
            edit(&mut metadata);
            let errors = validate_metadata(&metadata, true);
            assert_eq!(errors.is_empty(), expected.is_empty(), "{}", text(&errors));
            assert!(text(&errors).contains(expected), "{} lacks {expected}", text(&errors));
        }
    }

    #[test]
    fn a_cluster_scoped_object_has_no_namespace() {
        assert!(text(&validate_metadata(&good(), false)).contains("not allowed on this type"));
    }

    #[test]
    fn a_change_of_immutable_metadata_is_reported_by_field() {
        type Edit = fn(&mut ObjectMeta);
        let cases: Vec<(Edit, &str)> = vec![
            (|_| {}, ""),
            (|m| m.finalizers = Some(vec![]), ""),
            (|m| m.name = Some("b".into()), "metadata.name: Invalid value: \"b\": field is immutable"),
            (|m| m.uid = Some("b".into()), "metadata.uid"),
            (|m| m.creation_timestamp = None, "metadata.creationTimestamp"),
            (|m| m.deletion_timestamp = None, "metadata.deletionTimestamp"),
            (
                |m| m.finalizers = Some(vec!["a".into(), "b".into()]),
                "metadata.finalizers: Forbidden: no new finalizers",
            ),
        ];
        let old = ObjectMeta {
            uid: Some("a".into()),
            creation_timestamp: Some(Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH)),
            deletion_timestamp: Some(Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH)),
            finalizers: Some(vec!["a".into()]),
            ..good()
        };
        for (edit, expected) in cases {
            let mut new = old.clone();
            edit(&mut new);
            let errors = validate_metadata_update(&new, &old);
            assert_eq!(errors.is_empty(), expected.is_empty(), "{}", text(&errors));
            assert!(text(&errors).contains(expected), "{} lacks {expected}", text(&errors));
        }
    }
}
