//! What the server lets pass and the caller should know.

use evacuation_api::Evacuation;
use evacuation_protocol::{RequesterEdit, window_warnings};
use machinery_server::RequestContext;

/// Warns of the entries of an edit whose deadline comes before their window opens.
pub(super) fn warn_of_windows(context: &RequestContext, object: &Evacuation, edit: &RequesterEdit) {
    let policy = object.status.as_ref().and_then(|status| status.policy.as_ref());
    let names: Vec<_> = edit.added.iter().chain(&edit.changed).cloned().collect();
    for warning in
        policy.into_iter().flat_map(|policy| window_warnings(&object.spec.requesters, policy, &names))
    {
        context.warnings.add(warning);
    }
}
