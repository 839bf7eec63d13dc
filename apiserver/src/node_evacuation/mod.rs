//! The kind NodeEvacuation: the server's part of a drain.

mod of_rule;
mod ownership;
mod status;
mod strategy;
mod table;

pub use strategy::NodeEvacuationStrategy;
