//! Deletion: rules 1 and 3, and the fence.

use evacuation_api::{CANCELLATION_FINALIZER, Evacuation};
use evacuation_protocol::{Actor, delete};
use machinery_server::{ApiError, DeleteContext, RequestContext};

use super::{EvacuationStrategy, commit::commit};
use crate::refusal;

impl EvacuationStrategy {
    /// Cancels an active Evacuation. A finalizer holds it until the responders that were asked know.
    pub(super) async fn admit_delete(
        &self,
        context: &RequestContext,
        request: DeleteContext,
        object: &mut Evacuation,
    ) -> Result<(), ApiError> {
        let name = object.metadata.name.clone().unwrap_or_default();
        let check = |may_override| {
            delete(object, &context.user.name, may_override, request.namespace_terminating, context.now)
        };
        let deletion = match check(false) {
            Err(error) if error.is_forbidden() && self.rights.may_override(context, &name).await? => {
                check(true)
            }
            checked => checked,
        }
        .map_err(|error| refusal::edit(&name, &error))?;

        let before = object.status.take();
        commit(object, before.as_ref(), deletion.status, Actor::Server, context.now)?;
        // A second deletion finds the object on its way already, and no finalizer is added to such a one.
        if deletion.await_acknowledgements && object.metadata.deletion_timestamp.is_none() {
            let finalizers = object.metadata.finalizers.get_or_insert_default();
            if !finalizers.iter().any(|finalizer| finalizer == CANCELLATION_FINALIZER) {
                finalizers.push(CANCELLATION_FINALIZER.to_owned());
            }
        }
        Ok(())
    }
}
