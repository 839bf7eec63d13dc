//! Ownership of the number of replicas, between an object and its subresource `scale`.
//!
//! Source: `k8s.io/apimachinery/pkg/util/managedfields/scalehandler.go`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

use super::codec::Managed;
use crate::{
    FieldSet, ManagedFieldsError, Path,
    managers::{ManagerId, VersionedSet},
};

/// API version of the subresource.
const SCALE_VERSION: &str = "autoscaling/v1";
/// Path of the number of replicas in the subresource.
const SCALE_REPLICAS: [&str; 2] = ["spec", "replicas"];

/// Paths of the number of replicas in the served API versions of a kind; None in a version without `scale`.
pub type ReplicasPaths = BTreeMap<String, Option<Path>>;

/// Returns the managed fields of the subresource `scale`: the managers of the object that own the number of
/// replicas.
///
/// # Errors
///
/// An entry cannot be read.
pub fn scale_entries(
    object: &[ManagedFieldsEntry],
    paths: &ReplicasPaths,
) -> Result<Vec<ManagedFieldsEntry>, ManagedFieldsError> {
    let Managed { managers, mut times } = Managed::decode(object)?;
    let mut scale = Managed::default();
    for (id, owned) in managers {
        if !path(paths, &owned).is_some_and(|path| owned.set.has(&path.0)) {
            continue;
        }
        let time = times.remove(&id);
        let id = in_scale(&id);
        let set = FieldSet::from_iter([Path::fields(&SCALE_REPLICAS)]);
        let api_version = SCALE_VERSION.to_owned();
        scale.managers.insert(id.clone(), VersionedSet { set, api_version, applied: owned.applied });
        if let Some(time) = time {
            scale.times.insert(id, time);
        }
    }
    Ok(scale.encode())
}

/// Returns the managed fields of an object after a write to its subresource `scale`, which has the entries
/// `scale` now. `api_version` is that of the request.
///
/// Managers that lost the number of replicas keep their other fields. As upstream, the entry of a manager
/// that got it has no time, and managers of versions that are not served are forgotten. Unlike upstream, a
/// manager that updated the number keeps it when a write does not change it.
///
/// # Errors
///
/// An entry cannot be read.
pub fn object_entries(
    object: &[ManagedFieldsEntry],
    scale: &[ManagedFieldsEntry],
    api_version: &str,
    paths: &ReplicasPaths,
) -> Result<Vec<ManagedFieldsEntry>, ManagedFieldsError> {
    let Managed { managers, mut times } = Managed::decode(object)?;
    let scale = Managed::decode(scale)?.managers;
    let mut written = Managed::default();
    let mut kept = Vec::new();
    for (id, mut owned) in managers.into_iter().filter(|(_, owned)| paths.contains_key(&owned.api_version)) {
        if let Some(path) = path(paths, &owned).filter(|path| owned.set.has(&path.0)) {
            if scale.contains_key(&in_scale(&id)) {
                kept.push(in_scale(&id));
            } else {
                owned.set = owned.set.difference(&FieldSet::from_iter([path.clone()]));
            }
        }
        if owned.set.is_empty() {
            continue;
        }
        if let Some(time) = times.remove(&id) {
            written.times.insert(id.clone(), time);
        }
        written.managers.insert(id, owned);
    }
    let replicas = Path::fields(&SCALE_REPLICAS);
    let new = scale.into_iter().filter(|(id, owned)| !kept.contains(id) && owned.set.has(&replicas.0));
    for (id, owned) in new {
        let Some(path) = paths.get(api_version).and_then(Option::as_ref) else { continue };
        let set = FieldSet::from_iter([path.clone()]);
        let id = ManagerId::new(id.name(), id.operation(), api_version, id.subresource());
        let api_version = api_version.to_owned();
        written.managers.insert(id, VersionedSet { set, api_version, applied: owned.applied });
    }
    Ok(written.encode())
}

/// Returns the path of the number of replicas in the version of a manager.
fn path<'p>(paths: &'p ReplicasPaths, owned: &VersionedSet) -> Option<&'p Path> {
    paths.get(&owned.api_version).and_then(Option::as_ref)
}

/// Returns the identity that a manager of the object has in the subresource.
fn in_scale(id: &ManagerId) -> ManagerId {
    ManagerId::new(id.name(), id.operation(), SCALE_VERSION, id.subresource())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn paths() -> ReplicasPaths {
        BTreeMap::from([
            ("apps/v1".to_owned(), Some(Path::fields(&["spec", "replicas"]))),
            ("apps/v2".to_owned(), Some(Path::fields(&["spec", "size"]))),
            ("apps/v0".to_owned(), None),
        ])
    }

    #[expect(clippy::needless_pass_by_value, reason = "literals")]
    fn entry(manager: &str, operation: &str, version: &str, fields: Value) -> Value {
        json!({
            "manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        })
    }

    fn by_scale(mut entry: Value) -> Value {
        entry["subresource"] = "scale".into();
        entry
    }

    fn entries(value: &Value) -> Vec<ManagedFieldsEntry> {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn replicas() -> Value {
        json!({"f:spec": {"f:replicas": {}}})
    }

    #[test]
    fn the_subresource_shows_the_owners_of_the_replicas_in_every_served_version() {
        let object = json!([
            entry("a", "Apply", "apps/v1", json!({"f:spec": {"f:replicas": {}, "f:selector": {}}})),
            entry("b", "Update", "apps/v2", json!({"f:spec": {"f:size": {}}})),
            entry("c", "Apply", "apps/v1", json!({"f:spec": {"f:selector": {}}})),
            entry("d", "Apply", "apps/v9", replicas()),
            entry("e", "Apply", "apps/v0", replicas()),
        ]);
        let scale = scale_entries(&entries(&object), &paths()).unwrap();
        let expected = json!([
            entry("a", "Apply", "autoscaling/v1", replicas()),
            entry("b", "Update", "autoscaling/v1", replicas()),
        ]);
        assert_eq!(json!(scale), expected);
    }

    /// Returns the entries of an object after a write that left `scale` in the subresource.
    fn after(object: &Value, scale: &Value) -> Value {
        json!(object_entries(&entries(object), &entries(scale), "apps/v1", &paths()).unwrap())
    }

    #[test]
    fn a_manager_that_loses_the_replicas_keeps_its_other_fields() {
        let both = json!({"f:spec": {"f:replicas": {}, "f:selector": {}}});
        for operation in ["Apply", "Update"] {
            let object = json!([entry("test", operation, "apps/v1", both.clone())]);
            let scale = json!([by_scale(entry("scale", "Update", "autoscaling/v1", replicas()))]);
            let mut expected = vec![
                entry("test", operation, "apps/v1", json!({"f:spec": {"f:selector": {}}})),
                by_scale(entry("scale", "Update", "apps/v1", replicas())),
            ];
            expected.sort_by_key(|entry| (entry["operation"].to_string(), entry["manager"].to_string()));
            assert_eq!(after(&object, &scale), json!(expected), "{operation}");
        }
    }

    #[test]
    fn a_manager_without_other_fields_is_forgotten() {
        let object = json!([entry("test", "Apply", "apps/v1", replicas())]);
        let scale = json!([by_scale(entry("scale", "Apply", "autoscaling/v1", replicas()))]);
        let expected = json!([by_scale(entry("scale", "Apply", "apps/v1", replicas()))]);
        assert_eq!(after(&object, &scale), expected);
    }

    #[test]
    fn a_manager_that_does_not_own_the_replicas_in_the_subresource_gets_nothing() {
        let object = json!([entry("test", "Apply", "apps/v1", json!({"f:spec": {"f:selector": {}}}))]);
        let status = json!({"f:status": {"f:replicas": {}}});
        let scale = json!([by_scale(entry("scale", "Update", "autoscaling/v1", status))]);
        assert_eq!(after(&object, &scale), object);
    }

    #[test]
    fn a_write_that_changes_nothing_leaves_the_owners_and_their_times() {
        let mut object = json!([
            entry("one", "Apply", "apps/v2", json!({"f:spec": {"f:size": {}, "f:selector": {}}})),
            entry("two", "Update", "apps/v1", json!({"f:spec": {"f:replicas": {}, "f:selector": {}}})),
        ]);
        for entry in object.as_array_mut().unwrap() {
            entry["time"] = "2020-01-01T00:00:00Z".into();
        }
        let scale = json!(scale_entries(&entries(&object), &paths()).unwrap());
        assert_eq!(scale.as_array().map(Vec::len), Some(2));
        assert_eq!(after(&object, &scale), object);
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_an_error() {
        let broken = entries(&json!([{"manager": "x", "operation": "Sing"}]));
        assert!(scale_entries(&broken, &paths()).is_err());
        assert!(object_entries(&[], &broken, "apps/v1", &paths()).is_err());
    }
}
