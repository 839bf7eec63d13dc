//! Warnings for callers.

use evacuation_api::{EvacuationSpec, EvacuationStatus};
use evacuation_protocol::{RequesterEdit, requester_warnings};
use machinery_server::RequestContext;

/// Warns of the entries of an edit whose deadline has passed, or comes before their window opens.
pub(super) fn warn_of_entries(
    context: &RequestContext,
    spec: &EvacuationSpec,
    status: &EvacuationStatus,
    edit: &RequesterEdit<'_>,
) {
    let Some(policy) = &status.policy else { return };
    let written: Vec<_> = edit.written().collect();
    for warning in requester_warnings(&spec.requesters, policy, &written) {
        context.warnings.add(warning);
    }
}
