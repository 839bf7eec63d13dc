//! Warnings for users who ask for a drain.

use evacuation_api::{DeadlineAction, EmptyDirRule, NodeEvacuationSpec, RefusalPolicy};
use machinery_server::RequestContext;

/// Warns of the dangers of a new spec, or of those that a change adds.
pub(super) fn warn(context: &RequestContext, spec: &NodeEvacuationSpec, old: Option<&NodeEvacuationSpec>) {
    let known: Vec<&str> = old.into_iter().flat_map(dangers).collect();
    for danger in dangers(spec).filter(|danger| !known.contains(danger)) {
        context.warnings.add(danger);
    }
}

fn dangers(spec: &NodeEvacuationSpec) -> impl Iterator<Item = &'static str> {
    let requester = &spec.requester;
    [
        (
            requester.deadline_seconds == Some(0),
            "spec.requester.deadlineSeconds: 0 leaves responders no time to answer",
        ),
        (
            requester.at_deadline == Some(DeadlineAction::Delete),
            "spec.requester.atDeadline: Delete ignores PodDisruptionBudgets",
        ),
        (
            requester.on_refusal == Some(RefusalPolicy::Override),
            "spec.requester.onRefusal: Override evicts pods whose responder refused",
        ),
        (
            spec.pods.empty_dir_data == Some(EmptyDirRule::Delete),
            "spec.pods.emptyDirData: Delete loses the data of emptyDir volumes",
        ),
    ]
    .into_iter()
    .filter_map(|(applies, danger)| applies.then_some(danger))
}
