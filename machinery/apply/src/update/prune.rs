//! Removal of what a manager does not apply any more.

use serde_json::Value;

use super::Updater;
use crate::{
    FieldSet,
    managers::Managers,
    typed::{field_set, remove_items},
};

impl Updater<'_> {
    /// Removes the fields and items of `last`, the set that was applied before, that no manager owns now.
    ///
    /// An item is removed as a whole when no manager owns the item itself, even if parts of it are owned.
    pub(super) fn prune(&self, merged: Value, managers: &Managers, last: &FieldSet) -> Value {
        let named = |set: &FieldSet| set.ensure_named_fields(self.schema, Some(self.schema.root()));
        let fields = |document: &Value| named(&field_set(self.schema, document));
        let last = named(last);
        let whole = fields(&merged);

        let without_last = remove_items(self.schema, merged.clone(), &last);
        let owned = managers.values().fold(FieldSet::new(), |owned, manager| owned.union(&manager.set));
        let kept = fields(&without_last).union(&named(&owned));
        drop(without_last);

        let without_unowned = remove_items(self.schema, merged.clone(), &whole.difference(&kept));
        let gone = whole.difference(&fields(&without_unowned));
        drop(without_unowned);

        remove_items(self.schema, merged, &gone.intersection(&last))
    }
}
