//! Where an Evacuation stands, for tables and people.

use evacuation_api::{Answer, Evacuation, ResponderStatus};

use crate::Phase;

/// Where an Evacuation stands.
pub fn phase(evacuation: &Evacuation) -> Phase {
    let _ = evacuation;
    unimplemented!()
}

/// The word for the STATE column: Pending, Asking, Delayed, Refused, Accepted, Evicting, Blocked, Terminating, Evacuated or Failed.
pub fn state_word(evacuation: &Evacuation) -> &'static str {
    let _ = evacuation;
    unimplemented!()
}

/// The responder that has the say; when none has it, the last that was asked.
pub fn current_responder(evacuation: &Evacuation) -> Option<&ResponderStatus> {
    let _ = evacuation;
    unimplemented!()
}

/// The last answer of [`current_responder`], for the ANSWER column.
pub fn active_answer(evacuation: &Evacuation) -> Option<Answer> {
    let _ = evacuation;
    unimplemented!()
}
