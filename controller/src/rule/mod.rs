//! Drains by rule: NodeEvacuationRules.
//!
//! # Flow
//!
//! A change of a rule, of a node or of a rule's drain queues one key for all rules, because they share a
//! limit. A worker plans all rules with `evacuation-protocol`, writes each status that changed, and then
//! opens, changes and closes NodeEvacuations. The feature `drain` drains them as any other.
//!
//! # Guarantees
//!
//! A node is recorded in the status of its rule before its drain is opened. A failure of one rule does not
//! keep the others from being carried out.

mod acts;
mod rules;
#[cfg(test)]
mod tests;

pub(crate) use rules::Rules;
