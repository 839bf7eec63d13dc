//! The pods of a node that a drain evacuates, skips or refuses, with the meanings of `kubectl drain`.

mod pick;
mod reason;

pub use self::{
    pick::{DrainFilters, Picked, pick},
    reason::{DrainRefusal, DrainSkip, DrainWarning},
};
