//! The kind EvacuationResponder.

mod strategy;
mod table;

pub use strategy::EvacuationResponderStrategy;
