//! Answers: rule 4. `proof` proves the caller's identity; the protocol decides whether it is the responder's
//! turn.

mod action;
mod proof;

pub use action::Respond;
