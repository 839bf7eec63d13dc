//! The fence between withdrawing and evicting: each attempt is recorded before it is made, and while its outcome is not,
//! or once the API took it, nobody withdraws or puts itself to sleep.

use evacuation_api::EvacuationStatus;

use crate::EditError;

/// The fence: no withdrawal that succeeded is followed by an eviction, and no wait for a window that was not there before.
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
