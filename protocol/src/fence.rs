//! The fence between withdrawing and evicting.
//!
//! The controller records each attempt before it makes it. While the outcome is not recorded, and once the API accepted
//! the eviction, no requester withdraws, sleeps or gives up sooner.

use evacuation_api::{EvacuationStatus, RequesterKey};

use crate::EditError;

/// Guarantees that no successful withdrawal is followed by an eviction.
pub(crate) fn check_fence(
    status: &EvacuationStatus,
    requester: Option<RequesterKey<'_>>,
) -> Result<(), EditError> {
    let requester = || requester.map(|key| key.to_string()).unwrap_or_default();
    match &status.eviction {
        Some(eviction) if eviction.in_flight => Err(EditError::EvictionInFlight { requester: requester() }),
        Some(eviction) if eviction.accepted => Err(EditError::EvictionAccepted { requester: requester() }),
        _ => Ok(()),
    }
}
