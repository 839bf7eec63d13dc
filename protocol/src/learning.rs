//! Who must learn of a cancellation, and for how long an object waits for that.

use chrono::{DateTime, Utc};
use evacuation_api::{EvacuationStatus, ResponderStatus};

/// How long a deleted Evacuation waits for acknowledgements after it finished, in seconds.
pub const LEARNING_SECONDS: i64 = 30;

/// The responders that were asked when the Evacuation failed, and so must learn of it.
pub fn asked_responders(status: &EvacuationStatus) -> Vec<&ResponderStatus> {
    let _ = status;
    unimplemented!()
}

/// Whether a responder that was asked has not acknowledged the end yet and may still be waited for.
pub fn must_learn(status: &EvacuationStatus, now: DateTime<Utc>) -> bool {
    let _ = (status, now);
    unimplemented!()
}
