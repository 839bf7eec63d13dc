//! The kind Evacuation: the server's half of rules 1 to 7.

mod create;
mod delete;
mod strategy;
pub(crate) mod table;
mod update;
mod warning;

pub use strategy::EvacuationStrategy;
