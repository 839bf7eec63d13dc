//! The kind NodeEvacuation: the server's part of a drain.

mod ownership;
mod status;
mod strategy;
mod table;
mod warning;

pub use strategy::NodeEvacuationStrategy;
