//! The kind NodeEvacuation: the server's part of a drain.

mod of_rule;
mod ownership;
mod status;
mod strategy;
mod table;
mod warning;

pub use strategy::NodeEvacuationStrategy;
pub(crate) use warning::warn;
