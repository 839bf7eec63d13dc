//! The kind NodeEvacuation: the server's part of a drain.

mod of_rule;
mod ownership;
mod sight;
mod status;
mod strategy;
mod table;
mod unattended;

pub use sight::{KubeSights, Plan, SightError, Sights};
pub use strategy::NodeEvacuationStrategy;
pub(crate) use unattended::keep as keep_unattended;
