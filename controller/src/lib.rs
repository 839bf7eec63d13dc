//! Negotiates with responders and evicts within budgets.

mod index;
mod key;
mod lease;
mod evictor;
mod push;
mod queue;
mod reachability;

pub use key::ObjectKey;
