//! The kind NodeEvacuationRule: the server's part of drains by rule.

mod status;
mod strategy;
mod table;

pub use strategy::NodeEvacuationRuleStrategy;
