//! The fence between withdrawal and eviction. Each attempt is recorded before it is made. While its outcome
//! is not recorded, and once the API accepted it, no requester withdraws or starts to wait for a window.

use evacuation_api::EvacuationStatus;

use crate::EditError;

/// The fence: no withdrawal that succeeded is followed by an eviction, and no wait for a window that was not
/// there before.
pub(crate) fn check_fence(status: &EvacuationStatus, requester: &str) -> Result<(), EditError> {
    match &status.eviction {
        Some(eviction) if eviction.in_flight => {
            Err(EditError::EvictionInFlight { requester: requester.to_owned() })
        }
        Some(eviction) if eviction.accepted => {
            Err(EditError::EvictionAccepted { requester: requester.to_owned() })
        }
        _ => Ok(()),
    }
}
