//! Ending an Evacuation early: cancellation and deletion.

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, EvacuationStatus};

use crate::EditError;

/// The status of an Evacuation that is canceled for that reason, in words. One that has ended stays as it is.
///
/// The caller must have passed the fence: [`check_requester_edit`](crate::check_requester_edit) or [`delete`].
#[must_use]
pub fn cancel(status: &EvacuationStatus, why: &str, now: DateTime<Utc>) -> EvacuationStatus {
    let _ = (status, why, now);
    unimplemented!()
}

/// What a deletion leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// The status to delete the Evacuation with: canceled, if it was active.
    pub status: EvacuationStatus,
    /// Whether the finalizer [`CANCELLATION_FINALIZER`](evacuation_api::CANCELLATION_FINALIZER) is to hold the object until the
    /// responders that were asked have learnt of it.
    pub await_learning: bool,
}

/// Rules 1 and 3 and the fence, for a deletion by `user`.
///
/// # Errors
///
/// [`EditError::NotYours`] when an active one has entries of others, unless `may_override` or the namespace is terminating;
/// [`EditError::EvictionInFlight`] and [`EditError::EvictionAccepted`], unless the namespace is terminating, whose pods go anyway.
pub fn delete(
    evacuation: &Evacuation,
    user: &str,
    may_override: bool,
    namespace_terminating: bool,
    now: DateTime<Utc>,
) -> Result<Deletion, EditError> {
    let _ = (evacuation, user, may_override, namespace_terminating, now);
    unimplemented!()
}
