//! The kind Evacuation: the server's half of rules 1 to 7.

mod create;
mod delete;
mod strategy;
mod table;
mod update;

pub use strategy::EvacuationStrategy;
