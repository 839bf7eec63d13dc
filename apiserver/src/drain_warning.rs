//! Warnings for users who ask for a drain.

use evacuation_api::{DeadlineAction, EmptyDirRule, NodeEvacuationSpec, RefusalPolicy};
use machinery_server::RequestContext;

/// Warns of the dangers of a new spec at `path`, or of those that a change adds.
pub(crate) fn warn(
    context: &RequestContext,
    spec: &NodeEvacuationSpec,
    old: Option<&NodeEvacuationSpec>,
    path: &str,
) {
    let known: Vec<&str> = old.into_iter().flat_map(dangers).collect();
    for danger in dangers(spec).filter(|danger| !known.contains(danger)) {
        context.warnings.add(format!("{path}.{danger}"));
    }
}

fn dangers(spec: &NodeEvacuationSpec) -> impl Iterator<Item = &'static str> {
    let requester = &spec.requester;
    [
        (
            requester.deadline_seconds == Some(0),
            "requester.deadlineSeconds: 0 leaves responders no time to answer",
        ),
        (
            requester.at_deadline == Some(DeadlineAction::Delete),
            "requester.atDeadline: Delete ignores PodDisruptionBudgets",
        ),
        (
            requester.on_refusal == Some(RefusalPolicy::Override),
            "requester.onRefusal: Override evicts pods whose responder refused",
        ),
        (
            spec.pods.empty_dir_data == Some(EmptyDirRule::Delete),
            "pods.emptyDirData: Delete loses the data of emptyDir volumes",
        ),
    ]
    .into_iter()
    .filter_map(|(applies, danger)| applies.then_some(danger))
}
