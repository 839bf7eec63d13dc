//! The question that is posted to an app.

use evacuation_api::{Evacuation, ReviewAction, ReviewRequest};

/// The question to that responder; `None` when the Evacuation has no such responder or no identity yet.
pub fn question(evacuation: &Evacuation, responder: &str, action: ReviewAction) -> Option<ReviewRequest> {
    let _ = (evacuation, responder, action);
    unimplemented!()
}
