//! Updates: of the requesters (rules 3 and 5, and the fence) and of the status (rules 6 and 7).

use evacuation_api::Evacuation;
use evacuation_protocol::{
    EditError, RequesterEdit, apply_requester_edit, check_requester_edit, check_status_update,
};
use machinery_server::{ApiError, RequestContext};

use super::{EvacuationStrategy, warning::warn_of_windows};
use crate::refusal;

impl EvacuationStrategy {
    /// Lets the caller change what is its own, records what it adds, and cancels when the last entry leaves.
    pub(super) async fn admit_edit(
        &self,
        context: &RequestContext,
        object: &mut Evacuation,
        old: &Evacuation,
    ) -> Result<(), ApiError> {
        let name = old.metadata.name.as_deref().unwrap_or_default();
        let edit = self.check_edit(context, name, object, old).await?;
        if edit.is_empty() {
            return Ok(());
        }
        let pod = &old.spec.target.pod.name;
        if edit.needs_eviction_right() {
            self.rights.require_evict(context, name, pod).await?;
        }
        if edit.needs_deletion_right() {
            self.rights.require_delete(context, name, pod).await?;
        }
        let user = &context.user;
        object.status =
            Some(apply_requester_edit(old, &object.spec, &edit, &user.name, &user.groups, context.now));
        warn_of_windows(context, object, &edit);
        Ok(())
    }

    /// Asks for the verb `override` only where it is needed.
    async fn check_edit(
        &self,
        context: &RequestContext,
        name: &str,
        object: &Evacuation,
        old: &Evacuation,
    ) -> Result<RequesterEdit, ApiError> {
        let user = &context.user.name;
        let check = |may_override| check_requester_edit(old, &object.spec, user, may_override, context.now);
        match check(false) {
            Err(EditError::NotYours { .. }) if self.rights.may_override(context, name).await? => check(true),
            checked => checked,
        }
        .map_err(|error| refusal::edit(name, &error))
    }

    /// Takes the status that the controller writes, checked by the server's clock. The metadata is the registry's matter.
    pub(super) fn accept_status(
        context: &RequestContext,
        object: &mut Evacuation,
        old: &Evacuation,
    ) -> Result<(), ApiError> {
        let name = old.metadata.name.as_deref().unwrap_or_default();
        let proposed = object.status.take().unwrap_or_default();
        let status = check_status_update(old, proposed, context.now)
            .map_err(|errors| refusal::status(name, &errors, context.now))?;
        object.spec = old.spec.clone();
        object.status = Some(status);
        Ok(())
    }
}
