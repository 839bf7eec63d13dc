//! Managers from and to the entries of `metadata.managedFields`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, Time};

use crate::{
    FieldSet, ManagedFieldsError,
    managers::{ManagerId, Managers, Operation, VersionedSet},
};

const FIELDS_TYPE: &str = "FieldsV1";

/// Managers of one object, and the times of their last changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managed {
    pub(crate) managers: Managers,
    pub(crate) times: BTreeMap<ManagerId, Time>,
}

impl Managed {
    /// Reads entries. Of two entries of one manager, the last counts.
    pub(crate) fn decode(entries: &[ManagedFieldsEntry]) -> Result<Self, ManagedFieldsError> {
        let mut managed = Self::default();
        for (index, entry) in entries.iter().enumerate() {
            let operation = match entry.operation.as_deref() {
                Some("Apply") => Operation::Apply,
                Some("Update") => Operation::Update,
                _ => return Err(ManagedFieldsError::Operation),
            };
            let api_version = given(entry.api_version.as_deref()).ok_or(ManagedFieldsError::ApiVersion)?;
            match given(entry.fields_type.as_deref()) {
                Some(FIELDS_TYPE) => {}
                None => return Err(ManagedFieldsError::MissingFieldsType { index }),
                Some(found) => {
                    return Err(ManagedFieldsError::FieldsType { index, found: found.to_owned() });
                }
            }
            let name = entry.manager.as_deref().unwrap_or_default();
            let subresource = entry.subresource.as_deref().unwrap_or_default();
            let id = ManagerId::new(name, operation, api_version, subresource);
            let set = match &entry.fields_v1 {
                Some(FieldsV1(fields)) => FieldSet::from_fields_v1(fields)
                    .map_err(|error| ManagedFieldsError::Fields { index, error })?,
                None => FieldSet::new(),
            };
            match entry.time.clone() {
                Some(time) => managed.times.insert(id.clone(), time),
                None => managed.times.remove(&id),
            };
            let applied = operation == Operation::Apply;
            let owned = VersionedSet { set, api_version: api_version.to_owned(), applied };
            managed.managers.insert(id, owned);
        }
        Ok(managed)
    }

    /// Writes the entries in the order of operation, time, name, API version and subresource.
    pub(crate) fn encode(self) -> Vec<ManagedFieldsEntry> {
        let mut times = self.times;
        let entries = self.managers.into_iter().map(|(id, owned)| {
            let operation = if owned.applied { Operation::Apply } else { id.operation() };
            ManagedFieldsEntry {
                manager: given(Some(id.name())).map(str::to_owned),
                operation: Some(operation.as_str().to_owned()),
                api_version: Some(owned.api_version),
                time: times.remove(&id),
                fields_type: Some(FIELDS_TYPE.to_owned()),
                fields_v1: Some(FieldsV1(owned.set.to_fields_v1())),
                subresource: given(Some(id.subresource())).map(str::to_owned),
            }
        });
        let mut entries: Vec<ManagedFieldsEntry> = entries.collect();
        entries.sort_by(|left, right| sort_key(left).cmp(&sort_key(right)));
        entries
    }

    pub(crate) fn seconds(&self, id: &ManagerId) -> i64 {
        seconds(self.times.get(id))
    }
}

/// Checks that a record of ownership can be read.
///
/// # Errors
///
/// The first entry that cannot be read, and why.
pub fn validate_managed_fields(entries: &[ManagedFieldsEntry]) -> Result<(), ManagedFieldsError> {
    Managed::decode(entries).map(drop)
}

type SortKey<'a> = (Option<&'a str>, i64, [Option<&'a str>; 3]);

fn sort_key(entry: &ManagedFieldsEntry) -> SortKey<'_> {
    let names = [&entry.manager, &entry.api_version, &entry.subresource].map(Option::as_deref);
    (entry.operation.as_deref(), seconds(entry.time.as_ref()), names)
}

fn seconds(time: Option<&Time>) -> i64 {
    time.map_or(0, |Time(time)| time.as_second())
}

/// Returns a time without its fraction: JSON has none.
pub(crate) fn whole_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Returns a text unless it is empty, as Go leaves out empty texts.
fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn decode(entries: Value) -> Result<Managed, String> {
        let entries: Vec<ManagedFieldsEntry> = serde_json::from_value(entries).unwrap();
        Managed::decode(&entries).map_err(|error| error.to_string())
    }

    #[test]
    fn entries_are_ordered_by_operation_second_name_and_version() {
        let entry = |operation: &str, time: &str, manager: &str, version: &str| {
            let mut entry = json!({
                "apiVersion": version, "operation": operation, "manager": manager, "fieldsType": "FieldsV1",
                "fieldsV1": {"f:a": {}},
            });
            if !time.is_empty() {
                entry["time"] = format!("2020-01-01T00:00:{time}Z").into();
            }
            entry
        };
        let sorted = [
            entry("Apply", "", "z", "v1"),
            entry("Apply", "02", "b", "v2"),
            entry("Update", "01", "b", "v1"),
            entry("Update", "01", "b", "v2"),
            entry("Update", "01", "c", "v1"),
            entry("Update", "02", "a", "v1"),
        ];
        let mixed: Vec<Value> = sorted.iter().rev().cloned().collect();
        assert_eq!(json!(decode(mixed.into()).unwrap().encode()), json!(sorted));
    }

    #[test]
    fn the_last_entry_of_a_manager_counts() {
        let entry = |version: &str, field: &str| {
            json!({
                "apiVersion": version, "operation": "Apply", "manager": "a", "fieldsType": "FieldsV1",
                "fieldsV1": {field: {}},
            })
        };
        let managed = decode(json!([entry("v1", "f:a"), entry("v2", "f:b")])).unwrap();
        assert_eq!(json!(managed.encode()), json!([entry("v2", "f:b")]));
    }

    #[test]
    fn malformed_entries_are_errors() {
        let cases = [
            (json!({}), "operation must be `Apply` or `Update`"),
            (json!({"operation": "Update"}), "apiVersion must not be empty"),
            (
                json!({"operation": "Update", "apiVersion": "v1"}),
                "missing fieldsType in managed fields entry 0",
            ),
            (
                json!({"operation": "Update", "apiVersion": "v1", "fieldsType": "x"}),
                r#"invalid fieldsType "x" in managed fields entry 0"#,
            ),
            (
                json!({
                    "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": []},
                }),
                r#"error decoding set of managed fields entry 0: fields below "f:a" are not an object"#,
            ),
        ];
        for (entry, message) in cases {
            assert_eq!(decode(json!([entry])).unwrap_err(), message);
        }
    }
}
