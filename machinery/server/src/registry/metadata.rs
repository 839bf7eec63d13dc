//! Server-owned parts of the metadata. Source of the rules:
//! `k8s.io/apiserver/pkg/registry/rest/{create,update,meta}.go`.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, Time},
    jiff::Timestamp,
};
use machinery_validation::{FieldError, FieldPath, validate_metadata_update};
use serde_json::Value;
use uuid::Uuid;

use crate::{ApiError, Object, Reason, RequestContext, resource_name::ResourceName};

/// Finalizers of Kubernetes itself.
const STANDARD_FINALIZERS: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];

/// Sets the server-owned fields of a new object, whatever the caller sent.
pub(super) fn fill_in(
    metadata: &mut ObjectMeta,
    context: &RequestContext,
    namespaced: bool,
) -> Result<(), ApiError> {
    match_namespace(metadata, context, namespaced)?;
    metadata.resource_version = None;
    metadata.uid = Some(Uuid::new_v4().to_string());
    metadata.creation_timestamp = Some(time(context.now));
    metadata.deletion_timestamp = None;
    metadata.deletion_grace_period_seconds = None;
    metadata.generation = Some(1);
    metadata.self_link = None;
    Ok(())
}

/// Refuses a new object that names the version that it is for.
pub(super) fn check_unversioned(version: Option<&str>) -> Result<(), ApiError> {
    if version.is_none_or(str::is_empty) {
        return Ok(());
    }
    let message = "resourceVersion should not be set on objects to be created";
    Err(ApiError::status(Reason::BadRequest, message))
}

/// Restores the server-owned fields of an object that is replaced, and rejects contradictions.
///
/// The resourceVersion stays as the caller insists on it, and is `None` when any version will do.
///
/// # Errors
///
/// `BadRequest` for another name or namespace, `Conflict` for another UID or resourceVersion than the old
/// one's.
pub(super) fn restore(
    metadata: &mut ObjectMeta,
    old: &ObjectMeta,
    context: &RequestContext,
    resource: &ResourceName,
) -> Result<(), ApiError> {
    let name = old.name.clone().unwrap_or_default();
    match metadata.name.as_deref() {
        None | Some("") => metadata.name.clone_from(&old.name),
        Some(given) if given != name => return Err(another_name(given, &name)),
        Some(_) => {}
    }
    match_namespace(metadata, context, old.namespace.is_some())?;
    match metadata.uid.as_deref() {
        None | Some("") => metadata.uid.clone_from(&old.uid),
        Some(given) if Some(given) != old.uid.as_deref() => {
            return Err(uid_conflict(resource, &name, given, old));
        }
        Some(_) => {}
    }
    metadata.resource_version = wanted_version(metadata)?;
    if metadata.resource_version.is_some() && metadata.resource_version != old.resource_version {
        return Err(resource.modified(&name));
    }
    metadata.creation_timestamp.clone_from(&old.creation_timestamp);
    metadata.generation = old.generation;
    metadata.self_link = None;
    if old.deletion_timestamp.is_some() {
        metadata.deletion_timestamp.clone_from(&old.deletion_timestamp);
    }
    if metadata.deletion_grace_period_seconds.is_none() {
        metadata.deletion_grace_period_seconds = old.deletion_grace_period_seconds;
    }
    Ok(())
}

/// Returns the problems of the changes of the metadata in an update, which are none for a subresource.
///
/// # Errors
///
/// Those of [`restore`].
pub(crate) fn update_problems(
    given: &ObjectMeta,
    old: &ObjectMeta,
    context: &RequestContext,
    resource: &ResourceName,
) -> Result<Vec<FieldError>, ApiError> {
    let mut metadata = given.clone();
    restore(&mut metadata, old, context, resource)?;
    Ok(if context.subresource.is_empty() { validate_metadata_update(&metadata, old) } else { Vec::new() })
}

/// Restores the server-owned fields of an object that a plugin of admission has changed.
pub(super) fn keep_server_owned(metadata: &mut ObjectMeta, before: &ObjectMeta) {
    let given = std::mem::take(metadata);
    *metadata = ObjectMeta {
        labels: given.labels,
        annotations: given.annotations,
        finalizers: given.finalizers,
        owner_references: given.owner_references,
        managed_fields: given.managed_fields,
        ..before.clone()
    };
}

/// Returns the error for an object with another name than its URL has.
pub(crate) fn another_name(given: &str, name: &str) -> ApiError {
    let message = format!("the name of the object ({given}) does not match the name on the URL ({name})");
    ApiError::status(Reason::BadRequest, message)
}

/// Gives an object a name with the prefix that it asks for, if it has none.
pub(crate) fn name_new(metadata: &mut ObjectMeta) {
    let named = metadata.name.as_deref().is_some_and(|name| !name.is_empty());
    if let Some(prefix) = metadata.generate_name.as_deref().filter(|prefix| !named && !prefix.is_empty()) {
        metadata.name = Some(generated_name(prefix));
    }
}

/// Returns the error for an object without a name.
pub(crate) fn no_name(name: &str) -> ApiError {
    let message =
        format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
    ApiError::status(Reason::BadRequest, message)
}

/// Returns the version that the caller requires; `None` when it requires none.
pub(super) fn wanted_version(metadata: &ObjectMeta) -> Result<Option<String>, ApiError> {
    match metadata.resource_version.as_deref() {
        None | Some("" | "0") => Ok(None),
        Some(version) if version.parse::<u64>().is_ok() => Ok(Some(version.to_owned())),
        Some(version) => {
            let field = FieldPath::new("metadata").child("resourceVersion");
            let problem = "must be an opaque value that the server gave out";
            Err(ApiError::Invalid(vec![FieldError::invalid(&field, version, problem)]))
        }
    }
}

/// Keeps the old record of ownership where nothing but its times differs: an object is not written for that.
pub(super) fn keep_unchanged_ownership<O: Object>(object: &mut O, old: &O) {
    let timeless = |object: &O| -> Option<Vec<ManagedFieldsEntry>> {
        let mut entries = object.meta().managed_fields.clone()?;
        for entry in &mut entries {
            entry.time = None;
        }
        Some(entries)
    };
    if timeless(object) != timeless(old) {
        return;
    }
    let new = object.meta_mut().managed_fields.clone();
    object.meta_mut().managed_fields.clone_from(&old.meta().managed_fields);
    if object != old {
        object.meta_mut().managed_fields = new;
    }
}

/// Returns the conflict of a write or deletion that was meant for another object of the same name.
pub(super) fn uid_conflict(
    resource: &ResourceName,
    name: &str,
    wanted: &str,
    found: &ObjectMeta,
) -> ApiError {
    let found = found.uid.as_deref().unwrap_or_default();
    resource.conflict(
        name,
        &format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"),
    )
}

/// Sets the namespace of the path, and refuses another one.
pub(crate) fn match_namespace(
    metadata: &mut ObjectMeta,
    context: &RequestContext,
    namespaced: bool,
) -> Result<(), ApiError> {
    let wanted = if namespaced { context.namespace.as_str() } else { "" };
    match metadata.namespace.as_deref() {
        None | Some("") => metadata.namespace = (!wanted.is_empty()).then(|| wanted.to_owned()),
        Some(given) if given != wanted => {
            let message =
                "the namespace of the provided object does not match the namespace sent on the request";
            return Err(ApiError::status(Reason::BadRequest, message));
        }
        Some(_) => {}
    }
    Ok(())
}

/// Returns true when two versions of an object differ outside of metadata and status: then the generation is
/// incremented.
pub(super) fn content_differs<O: Object>(one: &O, other: &O) -> Result<bool, ApiError> {
    let content = |object: &O| -> Result<Value, ApiError> {
        let name = object.meta().name.clone().unwrap_or_default();
        let mut value = serde_json::to_value(object)
            .map_err(|source| ApiError::internal(format!("encoding {name}"), source))?;
        if let Some(fields) = value.as_object_mut() {
            fields.remove("metadata");
            fields.remove("status");
        }
        Ok(value)
    };
    Ok(content(one)? != content(other)?)
}

/// Warns of new finalizers without a domain. Source of the message: the strategy of custom resources in
/// `k8s.io/apiextensions-apiserver`.
pub(super) fn warn_of_finalizers(context: &RequestContext, metadata: &ObjectMeta, old: Option<&ObjectMeta>) {
    let before: HashSet<&String> =
        old.and_then(|old| old.finalizers.as_ref()).into_iter().flatten().collect();
    for finalizer in metadata.finalizers.iter().flatten() {
        let plain = !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer.as_str());
        if plain && !before.contains(finalizer) {
            context.warnings.add(format!(
                "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name to avoid accidental \
                 conflicts with other finalizer writers"
            ));
        }
    }
}

/// Returns a time as Kubernetes writes it in metadata: whole seconds.
pub(super) fn time(now: DateTime<Utc>) -> Time {
    Time(Timestamp::from_second(now.timestamp()).unwrap_or(Timestamp::UNIX_EPOCH))
}

/// Returns a prefix with five random characters that are hard to misread and spell nothing.
pub(super) fn generated_name(prefix: &str) -> String {
    use rand::seq::IndexedRandom;
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    const PREFIX_LENGTH: usize = 58;
    let cut = prefix.char_indices().map(|(at, _)| at).find(|at| *at >= PREFIX_LENGTH).unwrap_or(prefix.len());
    let mut name = prefix.get(..cut).unwrap_or(prefix).to_owned();
    let mut random = rand::rng();
    name.extend((0..5).filter_map(|_| ALPHABET.choose(&mut random)).map(|byte| char::from(*byte)));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_keep_their_prefix_and_are_never_too_long() {
        let name = generated_name("drain-");
        assert!(name.starts_with("drain-") && name.len() == 11, "{name}");
        assert_ne!(generated_name("a-"), generated_name("a-"));
        assert_eq!(generated_name(&"x".repeat(200)).len(), 63);
    }
}
