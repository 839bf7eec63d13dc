//! Withdrawal of an entry, which an eviction forbids.
//!
//! The controller records each attempt before it posts the eviction. While the outcome is not recorded, and
//! once the API accepted the eviction, no requester withdraws, sleeps or gives up sooner.

use evacuation_api::{EvacuationStatus, RequesterKey};

use super::EditError;

/// Checks that no eviction is in flight or accepted, so that none follows a successful withdrawal.
pub(super) fn check_withdrawal(
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
