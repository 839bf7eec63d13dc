//! Answers: rule 4. Who speaks is proved in `proof`; whether it is its turn is the protocol's decision.

mod action;
mod proof;

pub use action::Respond;
