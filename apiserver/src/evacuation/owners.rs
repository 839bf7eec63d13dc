//! Owners of the entries that others write for them.

use evacuation_api::{Evacuation, EvacuationStatus, OwnerGroups, POD_GROUP_REQUESTER};
use evacuation_protocol::{EVICTION_REQUESTS_OWNER, RequesterEdit};
use machinery_auth::UserInfo;
use machinery_server::{ApiError, RequestContext};

use super::EvacuationStrategy;

impl EvacuationStrategy {
    /// Returns the user of that name, with the groups that can be proved: those of the request, those that
    /// follow from the name of a service account, and those that a trusted writer declares.
    pub(super) async fn user(
        &self,
        context: &RequestContext,
        object: &Evacuation,
        owner: &str,
    ) -> Result<UserInfo, ApiError> {
        if owner == context.user.name {
            return Ok(context.user.clone());
        }
        let mut user = UserInfo::of_name(owner);
        user.groups.extend(self.declared_groups(context, object, owner).await?);
        Ok(user)
    }

    /// Requires of the owners of new or harder entries for a PodGroup what rule 5 requires of a caller.
    ///
    /// The controller writes these entries because the owner asked for another pod, on which the owner can
    /// have rights that end there. An owner who may delete the pod needs no right to evict it: a caller who
    /// deletes pods, such as the scheduler, has no other. The owner of EvictionRequests is no user: their
    /// requesters may create them for every pod of the namespace.
    pub(super) async fn require_rights_of_owners(
        &self,
        context: &RequestContext,
        object: &Evacuation,
        edit: &RequesterEdit<'_>,
    ) -> Result<(), ApiError> {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let pod = &object.spec.target.pod.name;
        for key in edit.added.iter().chain(&edit.hardened) {
            let is_user = key.owner != EVICTION_REQUESTS_OWNER;
            if key.name == POD_GROUP_REQUESTER && is_user && key.owner != context.user.name {
                let owner = self.user(context, object, key.owner).await?;
                let deletes = edit.deleting.contains(key);
                self.rights.require_disruption(context, &owner, (name, pod), deletes).await?;
            }
        }
        Ok(())
    }

    /// Records the declared groups of the owners of new entries that the caller has written for them.
    pub(super) async fn record_owner_groups(
        &self,
        context: &RequestContext,
        object: &Evacuation,
        edit: &RequesterEdit<'_>,
        status: &mut EvacuationStatus,
    ) -> Result<(), ApiError> {
        for key in edit.added.iter().filter(|key| key.owner != context.user.name) {
            let groups = self.declared_groups(context, object, key.owner).await?;
            let mut live = status.requesters.iter_mut().filter(|known| known.left_time.is_none());
            if let Some(recorded) = live.find(|known| known.key() == *key) {
                recorded.owner_groups = groups;
            }
        }
        Ok(())
    }

    /// Returns the groups of an owner that the request declares. None from a caller that is not trusted.
    async fn declared_groups(
        &self,
        context: &RequestContext,
        object: &Evacuation,
        owner: &str,
    ) -> Result<Vec<String>, ApiError> {
        let declared = OwnerGroups::of(&object.metadata, owner);
        if declared.is_empty() || self.rights.may_override_in_cluster(context, Evacuation::PLURAL, "").await?
        {
            return Ok(declared);
        }
        Ok(Vec::new())
    }
}
