//! The kind Evacuation: the server's part of rules 1 to 8.

pub(crate) mod commit;
mod create;
mod delete;
mod owners;
mod records;
mod reserve;
mod strategy;
pub(crate) mod table;
mod update;
mod warning;

pub use strategy::EvacuationStrategy;
