//! The single way of a status into an object: every change passes the transition tables (rule 6).

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, EvacuationStatus};
use evacuation_protocol::{Actor, check_transition};
use machinery_server::ApiError;

use crate::refusal;

/// Sets the status of `object`, if the tables let that actor change `before` into `after`.
pub(crate) fn commit(
    object: &mut Evacuation,
    before: Option<&EvacuationStatus>,
    after: EvacuationStatus,
    by: Actor,
    now: DateTime<Utc>,
) -> Result<(), ApiError> {
    if let Err(error) = check_transition(before, &after, by) {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        return Err(refusal::status(name, &[error], now));
    }
    object.status = Some(after);
    Ok(())
}
