//! What several requesters amount to.

use chrono::{DateTime, Utc};
use evacuation_api::{Policy, Requester};

/// What the entries amount to at `now`, given what they amounted to before.
///
/// # Guarantees
///
/// `onRefusal` is the hardest of the live entries; an entry lapses when its GiveUp deadline is reached. The grace
/// period is the smallest that a live entry names. The deadlines are sorted, and one that was reached stays reached
/// while its entry is there, whatever the entry says now and whatever the clock does.
pub fn derive_policy(requesters: &[Requester], previous: Option<&Policy>, now: DateTime<Utc>) -> Policy {
    let _ = (requesters, previous, now);
    unimplemented!()
}

/// Whether that requester's entry has lapsed: its GiveUp deadline was reached.
pub fn has_lapsed(policy: &Policy, requester: &str) -> bool {
    let _ = (policy, requester);
    unimplemented!()
}

/// Whether there are entries and all of them have lapsed.
pub fn all_lapsed(requesters: &[Requester], policy: &Policy) -> bool {
    let _ = (policy, requesters);
    unimplemented!()
}
