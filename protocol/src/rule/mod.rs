//! Drain by rule: the NodeEvacuations that follow from the marks of nodes.
//!
//! # Flow
//!
//! [`plan_rules`] takes every rule, every node and every NodeEvacuation, and returns each rule's next status
//! and acts. A node with a mark is first recorded in the status of its rule. Its drain is opened in a later
//! plan, so that the time at which the mark appeared survives a crash.
//!
//! # Guarantees
//!
//! - The rules together drain no more nodes than the largest `maxNodes` allows, whatever the marks say.
//! - A drain that a user deleted is not opened again before its mark disappears.
//! - A rule touches only NodeEvacuations that it owns.
//! - A node that waits, because its condition has no time, gets a place in the status before a node with a
//!   new mark, as long as few wait. The longest waiting ones keep theirs.

mod deadline;
mod mark;
mod owner;
mod plan;
mod planner;
mod report;
#[cfg(test)]
mod tests;

pub(crate) use self::deadline::parse as parse_notice_time;
pub use self::{
    owner::{at_deadline, owner_rule},
    plan::{RejectedDrain, RuleAct, RulePlan, RuleWorld, plan_rules},
};
