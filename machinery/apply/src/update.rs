//! Merge and ownership on typed documents: `sigs.k8s.io/structured-merge-diff/merge`.

mod prune;

use std::{
    borrow::Cow,
    collections::{BTreeMap, btree_map::Entry},
};

use machinery_schema::Schema;
use serde_json::{Value, json};

use crate::{
    ApplyError, Conflict, FieldSet, Versions,
    managers::{ManagerId, Managers, VersionedSet},
    typed::{Comparison, compare, field_set, merge, reconcile},
    value,
};

/// Computes merged documents and their owners. The documents must fit the schema.
pub struct Updater<'a> {
    /// Shape of the documents.
    pub schema: &'a Schema,
    /// API version of the documents.
    pub api_version: &'a str,
    /// The versions of the kind.
    pub versions: &'a dyn Versions,
    /// Fields that the request does not write, with all that lies below them. They get no owner.
    pub ignored: &'a FieldSet,
}

impl Updater<'_> {
    /// Returns the managers after an update: `id` owns what it changed or added, and what it owned before.
    ///
    /// # Errors
    ///
    /// [`ApplyError::Incomparable`], [`ApplyError::Unconvertible`].
    pub fn update(
        &self,
        live: &Value,
        new: &Value,
        managers: Managers,
        id: &ManagerId,
    ) -> Result<Managers, ApplyError> {
        let managers = self.reconciled(managers);
        let (mut managers, compared) = self.changed(live, new, managers, id, true)?;
        let before = managers.remove(id).map(|owned| owned.set).unwrap_or_default();
        let set = before.difference(&compared.removed).union(&compared.modified).union(&compared.added);
        let set = set.recursive_difference(self.ignored);
        if !set.is_empty() {
            let owned = VersionedSet { set, api_version: self.api_version.to_owned(), applied: false };
            managers.insert(id.clone(), owned);
        }
        Ok(managers)
    }

    /// Merges an applied document into the live one. Returns the merged document, or None when it is equal to
    /// the live one, and the managers.
    ///
    /// Fields that `id` applied before and does not apply now are removed, unless another manager owns them.
    /// With `force`, `id` takes the fields in conflict from their owners.
    ///
    /// # Errors
    ///
    /// [`ApplyError::Conflicts`] without `force`, [`ApplyError::Invalid`], [`ApplyError::Incomparable`],
    /// [`ApplyError::Unconvertible`].
    pub fn apply(
        &self,
        live: &Value,
        applied: &Value,
        managers: Managers,
        id: &ManagerId,
        force: bool,
    ) -> Result<(Option<Value>, Managers), ApplyError> {
        let mut managers = self.reconciled(managers);
        let merged = merge(self.schema, live, applied).map_err(ApplyError::Incomparable)?;
        let set = field_set(self.schema, applied).recursive_difference(self.ignored);
        let owned = VersionedSet { set, api_version: self.api_version.to_owned(), applied: true };
        let before = managers.insert(id.clone(), owned);
        let merged = merged.unwrap_or_default();
        let merged = match before.filter(|before| !before.set.is_empty()) {
            Some(before) => self.prune(&merged, &managers, &before)?,
            None => merged,
        };
        let (managers, _) = self.changed(live, &merged, managers, id, force)?;
        let changed = !value::equal(live, &merged);
        Ok((changed.then_some(merged), managers))
    }

    /// Takes changed fields from every manager but `id`. Returns the differences in the documents' version.
    fn changed(
        &self,
        live: &Value,
        new: &Value,
        mut managers: Managers,
        id: &ManagerId,
        force: bool,
    ) -> Result<(Managers, Comparison), ApplyError> {
        let mut compared =
            BTreeMap::from([(self.api_version.to_owned(), self.compare(self.api_version, live, new)?)]);
        let mut conflicts = Vec::new();
        for (other, owned) in managers.iter_mut().filter(|(other, _)| *other != id) {
            let differences = match compared.entry(owned.api_version.clone()) {
                Entry::Occupied(found) => found.into_mut(),
                Entry::Vacant(place) => place.insert(self.compare(&owned.api_version, live, new)?),
            };
            let taken = owned.set.intersection(&differences.modified.union(&differences.added));
            if !force {
                let paths = taken.paths().into_iter();
                conflicts.extend(paths.map(|path| Conflict { manager: other.clone(), path }));
            }
            if !taken.is_empty() || !differences.removed.is_empty() {
                owned.set = owned.set.difference(&taken).difference(&differences.removed);
            }
        }
        if !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(conflicts));
        }
        managers.retain(|_, owned| !owned.set.is_empty());
        Ok((managers, compared.remove(self.api_version).unwrap_or_default()))
    }

    /// Compares two documents as they are in a served version.
    fn compare(&self, version: &str, live: &Value, new: &Value) -> Result<Comparison, ApplyError> {
        let convert = |document| self.convert(document, document, self.api_version, version);
        let compared = compare(self.schema_of(version)?, &*convert(live)?, &*convert(new)?);
        Ok(compared.map_err(ApplyError::Incomparable)?.without(self.ignored))
    }

    fn schema_of(&self, version: &str) -> Result<&Schema, ApplyError> {
        if version == self.api_version {
            return Ok(self.schema);
        }
        self.versions.schema(version).ok_or_else(|| unconvertible(version, "it is not served"))
    }

    /// Converts a document, which is `whole` or a part of it, between two versions.
    fn convert<'v>(
        &self,
        document: &'v Value,
        whole: &Value,
        from: &str,
        to: &str,
    ) -> Result<Cow<'v, Value>, ApplyError> {
        if from == to {
            return Ok(Cow::Borrowed(document));
        }
        // The document that a creation starts from has nothing to convert.
        if document.get("metadata").is_none() && document.as_object().is_some_and(|fields| fields.len() <= 2)
        {
            return Ok(Cow::Owned(json!({"apiVersion": to, "kind": document.get("kind")})));
        }
        let converted = self.versions.convert(document, whole, from, to);
        converted.map(Cow::Owned).map_err(|why| unconvertible(to, &why))
    }

    /// Forgets managers of versions that are not served, and adapts the others to the schema.
    fn reconciled(&self, mut managers: Managers) -> Managers {
        managers.retain(|_, owned| {
            let Ok(schema) = self.schema_of(&owned.api_version) else { return false };
            if let Some(set) = reconcile(schema, &owned.set) {
                owned.set = set;
            }
            true
        });
        managers
    }
}

fn unconvertible(version: &str, why: &str) -> ApplyError {
    ApplyError::Unconvertible { version: version.to_owned(), why: why.to_owned() }
}
