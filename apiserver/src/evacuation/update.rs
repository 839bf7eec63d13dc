//! Updates: of the requesters (rules 3 and 5, and the fence) and of the status (rules 6 and 7).

use evacuation_api::{Evacuation, EvacuationSpec};
use evacuation_protocol::{
    Actor, Editor, RequesterEdit, apply_requester_edit, check_requester_edit, check_status_update,
};
use machinery_server::{ApiError, RequestContext};

use super::{EvacuationStrategy, commit::commit, warning::warn_of_entries};
use crate::refusal;

impl EvacuationStrategy {
    /// Checks the edit of the caller, records the entries' users, and cancels when the last entry leaves.
    pub(super) async fn admit_edit(
        &self,
        context: &RequestContext,
        object: &mut Evacuation,
        old: &Evacuation,
    ) -> Result<(), ApiError> {
        let name = old.metadata.name.as_deref().unwrap_or_default();
        let guarded = object.metadata.resource_version.is_some();
        let edit = self.check_edit(context, guarded, &object.spec, old).await?;
        let pod = &old.spec.target.pod.name;
        if edit.needs_eviction_right() {
            self.rights.require_evict(context, name, pod).await?;
        }
        if edit.needs_deletion_right() {
            self.rights.require_delete(context, name, pod).await?;
        }
        self.require_rights_of_owners(context, object, &edit).await?;
        let user = &context.user;
        let mut status =
            apply_requester_edit(old, &object.spec, &edit, &user.name, &user.groups, context.now);
        self.record_owner_groups(context, object, &edit, &mut status).await?;
        warn_of_entries(context, &object.spec, &status, &edit);
        commit(object, old.status.as_ref(), status, Actor::Server, context.now)
    }

    /// Asks for the verb `override` only where it is needed.
    async fn check_edit<'a>(
        &self,
        context: &RequestContext,
        guarded: bool,
        spec: &'a EvacuationSpec,
        old: &'a Evacuation,
    ) -> Result<RequesterEdit<'a>, ApiError> {
        let name = old.metadata.name.as_deref().unwrap_or_default();
        let user = &context.user.name;
        let check = |may_override| {
            check_requester_edit(old, spec, Editor { user, may_override, guarded }, context.now)
        };
        match check(false) {
            Err(error) if error.is_forbidden() && self.rights.may_override(context, name).await? => {
                check(true)
            }
            checked => checked,
        }
        .map_err(|error| refusal::edit(name, &error))
    }

    /// Accepts the controller's status, checked by the server's clock. The registry checks the metadata.
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
        commit(object, old.status.as_ref(), status, Actor::Controller, context.now)
    }
}
