//! The kind NodeEvacuationRule: the server's part of drains by rule.

mod groups;
mod status;
mod strategy;
mod table;

pub use groups::GroupTerm;
pub use strategy::NodeEvacuationRuleStrategy;
