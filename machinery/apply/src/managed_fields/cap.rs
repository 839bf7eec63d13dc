//! Limit on the number of managers of an object.

use std::collections::BTreeMap;

use super::codec::Managed;
use crate::managers::{ManagerId, Operation};

/// Maximum number of managers that updated an object.
const MAX_UPDATE_MANAGERS: usize = 10;
/// Manager of the updates that are too old to be told apart.
const OLD_UPDATES: &str = "ancient-changes";

/// Merges the oldest updates of each API version into one manager until few enough are left.
pub(super) fn cap(managed: &mut Managed) {
    let updaters = managed.managers.iter().filter(|(_, owned)| !owned.applied);
    let mut updaters: Vec<ManagerId> = updaters.map(|(id, _)| id.clone()).collect();
    if updaters.len() <= MAX_UPDATE_MANAGERS {
        return;
    }
    // The sort is stable: updates of one second stay in the order of their identities.
    updaters.sort_by_key(|id| managed.seconds(id));
    let mut left = updaters.len();
    let mut first_of_version: BTreeMap<String, ManagerId> = BTreeMap::new();
    for id in updaters {
        if left <= MAX_UPDATE_MANAGERS {
            return;
        }
        let Some(owned) = managed.managers.get(&id).cloned() else {
            continue;
        };
        let Some(first) = first_of_version.get(&owned.api_version) else {
            first_of_version.insert(owned.api_version, id);
            continue;
        };
        let bucket = ManagerId::new(OLD_UPDATES, Operation::Update, &owned.api_version, "");
        if !managed.managers.contains_key(&bucket)
            && let Some(oldest) = managed.managers.remove(first)
        {
            managed.managers.insert(bucket.clone(), oldest);
        }
        if id == bucket {
            // An update older than the bucket stays. Upstream forgets the bucket here.
            continue;
        }
        if let Some(old) = managed.managers.get_mut(&bucket) {
            old.set.absorb(&owned.set);
        }
        // The bucket has the time of the latest of its updates.
        match managed.times.get(&id).cloned() {
            Some(time) => managed.times.insert(bucket.clone(), time),
            None => managed.times.remove(&bucket),
        };
        managed.managers.remove(&id);
        left -= 1;
    }
}
