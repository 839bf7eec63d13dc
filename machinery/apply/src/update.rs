//! Merge and ownership on typed documents: `sigs.k8s.io/structured-merge-diff/merge`.

mod prune;

use machinery_schema::Schema;
use serde_json::Value;

use crate::{
    ApplyError, Conflict, FieldSet,
    managers::{ManagerId, Managers, VersionedSet},
    typed::{Comparison, compare, field_set, merge, reconcile},
    value,
};

/// API versions that objects can be converted to.
///
/// Every document that this crate gets is in the version of the request. A manager whose version is not
/// served any more is forgotten, as kube-apiserver does. Conversion of documents for the managers of another
/// served version belongs here, with the second served version.
pub trait Converter {
    /// Returns whether the fields of a manager of this API version can be understood.
    fn serves(&self, api_version: &str) -> bool;
}

/// Converter of a kind with one API version.
#[derive(Clone, Copy, Debug)]
pub struct OneVersion<'a>(pub &'a str);

impl Converter for OneVersion<'_> {
    fn serves(&self, api_version: &str) -> bool {
        self.0 == api_version
    }
}

/// Computes merged documents and their owners. The documents must fit the schema.
pub struct Updater<'a> {
    /// Shape of the documents.
    pub schema: &'a Schema,
    /// API version of the documents.
    pub api_version: &'a str,
    /// Versions of managers that are kept.
    pub converter: &'a dyn Converter,
    /// Fields that the request does not write, with all that lies below them. They get no owner.
    pub ignored: &'a FieldSet,
}

impl Updater<'_> {
    /// Returns the managers after an update: `id` owns what it changed or added, and what it owned before.
    ///
    /// # Errors
    ///
    /// [`ApplyError::Incomparable`].
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
    /// [`ApplyError::Conflicts`] without `force`, [`ApplyError::Invalid`], [`ApplyError::Incomparable`].
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
            Some(before) => self.prune(merged, &managers, &before.set),
            None => merged,
        };
        let (managers, _) = self.changed(live, &merged, managers, id, force)?;
        let changed = !value::equal(live, &merged);
        Ok((changed.then_some(merged), managers))
    }

    /// Takes changed fields from every manager but `id`.
    fn changed(
        &self,
        live: &Value,
        new: &Value,
        mut managers: Managers,
        id: &ManagerId,
        force: bool,
    ) -> Result<(Managers, Comparison), ApplyError> {
        let compared = compare(self.schema, live, new).map_err(ApplyError::Incomparable)?;
        let compared = compared.without(self.ignored);
        let written = compared.modified.union(&compared.added);
        let mut conflicts = Vec::new();
        for (other, owned) in managers.iter_mut().filter(|(other, _)| *other != id) {
            let taken = owned.set.intersection(&written);
            if !force {
                let paths = taken.paths().into_iter();
                conflicts.extend(paths.map(|path| Conflict { manager: other.clone(), path }));
            }
            if !taken.is_empty() || !compared.removed.is_empty() {
                owned.set = owned.set.difference(&taken).difference(&compared.removed);
            }
        }
        if !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(conflicts));
        }
        managers.retain(|_, owned| !owned.set.is_empty());
        Ok((managers, compared))
    }

    /// Forgets managers of versions that are not served, and adapts the others to the schema.
    fn reconciled(&self, mut managers: Managers) -> Managers {
        managers.retain(|_, owned| self.converter.serves(&owned.api_version));
        for owned in managers.values_mut() {
            if let Some(set) = reconcile(self.schema, &owned.set) {
                owned.set = set;
            }
        }
        managers
    }
}
