//! The state of a drain in a word.

use evacuation_api::{DrainConditionType, NodeEvacuation, NodeEvacuationStatus};

/// Returns the verdict, or the word for the end or the cancellation of a drain.
pub(crate) fn verdict(drain: &NodeEvacuation, status: &NodeEvacuationStatus) -> String {
    if drain.metadata.deletion_timestamp.is_some() {
        "Canceling".to_owned()
    } else if status.is_true(DrainConditionType::Failed) {
        "Failed".to_owned()
    } else if drain.spec.paused && !status.is_true(DrainConditionType::Finished) {
        format!("{:?} (paused)", status.verdict.unwrap_or_default())
    } else {
        format!("{:?}", status.verdict.unwrap_or_default())
    }
}
