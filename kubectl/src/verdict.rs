//! The state of a drain in a word.

use evacuation_api::{DrainConditionType, NodeEvacuation};

/// Returns the verdict as the API has it, and says that a drain is paused.
pub(crate) fn verdict(drain: &NodeEvacuation) -> String {
    let word = drain.verdict().as_str();
    let ended = drain.status.as_ref().is_some_and(|status| status.is_true(DrainConditionType::Finished));
    let paused = drain.spec.paused && !ended && drain.metadata.deletion_timestamp.is_none();
    if paused { format!("{word} (paused)") } else { word.to_owned() }
}
