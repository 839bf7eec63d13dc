//! Fields without owners.

use crate::{FieldSet, Path, managers::ManagerId, managers::Managers};

const METADATA: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// Removes the fields that identify an object, and those that only the server writes, from a manager.
pub(super) fn strip(managers: &mut Managers, id: &ManagerId) {
    let whole = ["apiVersion", "kind", "metadata"].into_iter().map(|name| Path::fields(&[name]));
    let metadata = METADATA.into_iter().map(|name| Path::fields(&["metadata", name]));
    let stripped: FieldSet = whole.chain(metadata).collect();
    if let Some(owned) = managers.get_mut(id) {
        owned.set = owned.set.difference(&stripped);
        if owned.set.is_empty() {
            managers.remove(id);
        }
    }
}
