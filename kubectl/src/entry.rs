//! The entry of a drain in an Evacuation.

use evacuation_api::{Evacuation, NodeEvacuation};

/// Returns true when the Evacuation holds or held the entry of the drain. Another user can have an entry of
/// the same name.
pub(crate) fn has_entry(evacuation: &Evacuation, drain: &NodeEvacuation) -> bool {
    let owner = drain.status.as_ref().and_then(|status| status.requester.as_ref());
    let (Some(owner), Some(name)) = (owner, drain.entry_name()) else { return false };
    let mut recorded = evacuation.status.iter().flat_map(|status| &status.requesters);
    recorded.any(|requester| requester.owner == owner.user && requester.name == name)
}
