//! What the controller may write: rules 6 and 7.

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, EvacuationStatus};

use crate::StatusError;

/// The status that results from the controller's write, or everything that is wrong with it.
///
/// # Guarantees
///
/// What the server and the responders own is restored: recorded requesters, policy (derived anew by `now`), answers
/// and their times. Times are stamped with `now`. Every change of a responder's state is in
/// [`TRANSITIONS`](crate::TRANSITIONS) and due by `now`; at most one responder is Active and the order of priority is
/// kept; the list of responders is fixed once written; an attempt to evict is recorded only when every responder is
/// done; nothing changes after the end. Where the write ends the Evacuation, responders that are not done become Canceled, `Finished` is
/// set and so is `finishTime`.
pub fn check_status_update(
    old: &Evacuation,
    proposed: EvacuationStatus,
    now: DateTime<Utc>,
) -> Result<EvacuationStatus, Vec<StatusError>> {
    let _ = (old, proposed, now);
    unimplemented!()
}
