//! Checks of writes of the status: rules 6 and 7. The server restores the fields that the writer does not
//! own, and rejects each change that is not allowed or not due by its clock.

mod check;
mod conditions;
mod error;
mod eviction;
mod responders;
mod transition;

pub use self::{check::check_status_update, error::StatusError, transition::check_transition};
