//! Removal of what a manager does not apply any more.

use std::collections::BTreeSet;

use machinery_schema::Schema;
use serde_json::Value;

use super::Updater;
use crate::{
    ApplyError, FieldSet,
    managers::{Managers, VersionedSet},
    typed::{field_set, remove_items},
};

impl Updater<'_> {
    /// Removes the fields and items of `last`, the set that was applied before, that no manager owns now.
    ///
    /// An item is removed as a whole when no manager owns the item itself, even if parts of it are owned.
    /// Owners count in their own version: the document is converted to each of them, first to that of `last`.
    /// Later versions then find the fields that they require.
    pub(super) fn prune(
        &self,
        merged: &Value,
        managers: &Managers,
        last: &VersionedSet,
    ) -> Result<Value, ApplyError> {
        let last_version = last.api_version.as_str();
        let last_schema = self.schema_of(last_version)?;
        let last_set = named(last_schema, &last.set);
        let whole = self.convert(merged, merged, self.api_version, last_version)?.into_owned();

        let (mut version, mut all) = (last_version, whole.clone());
        let mut pruned = remove_items(last_schema, whole.clone(), &last_set);
        let mut versions: BTreeSet<&str> =
            managers.values().map(|owned| owned.api_version.as_str()).collect();
        let first = versions.take(last_version);
        for next in first.into_iter().chain(versions) {
            let schema = self.schema_of(next)?;
            pruned = self.convert(&pruned, &all, version, next)?.into_owned();
            all = self.convert(&all, &all, version, next)?.into_owned();
            version = next;
            let owners = managers.values().filter(|owned| owned.api_version == next);
            let owned = owners.fold(FieldSet::new(), |union, owned| union.union(&owned.set));
            let kept = fields(schema, &pruned).union(&named(schema, &owned));
            pruned = remove_items(schema, all.clone(), &fields(schema, &all).difference(&kept));
        }

        let pruned = self.convert(&pruned, &all, version, last_version)?;
        let gone = fields(last_schema, &whole).difference(&fields(last_schema, &pruned));
        let result = remove_items(last_schema, whole.clone(), &gone.intersection(&last_set));
        Ok(self.convert(&result, &whole, last_version, self.api_version)?.into_owned())
    }
}

fn named(schema: &Schema, set: &FieldSet) -> FieldSet {
    set.ensure_named_fields(schema, Some(schema.root()))
}

fn fields(schema: &Schema, document: &Value) -> FieldSet {
    named(schema, &field_set(schema, document))
}
