//! The reserve of the limits: for entries of users who act for all namespaces, whoever writes them (rule 8).

use std::collections::BTreeSet;

use evacuation_api::{Evacuation, REFRESH_REQUESTER};
use machinery_server::{ApiError, RequestContext};

use super::EvacuationStrategy;

impl EvacuationStrategy {
    /// Returns true when every owner of an entry that the request writes acts for all namespaces.
    ///
    /// The gateway and the controller write for others, and their own right would open the reserve to each
    /// tenant whose calls they stand for. An entry for a crash loop is caused by the pod, and has no part in
    /// the reserve.
    pub(super) async fn owners_may_use_reserve(
        &self,
        context: &RequestContext,
        object: &Evacuation,
        old: Option<&Evacuation>,
    ) -> Result<bool, ApiError> {
        let before = old.map(|old| old.spec.requesters.as_slice()).unwrap_or_default();
        let written = object.spec.requesters.iter().filter(|entry| !before.contains(entry));
        let mut owners = BTreeSet::new();
        for entry in written {
            if entry.name == REFRESH_REQUESTER {
                return Ok(false);
            }
            owners.insert(entry.owner.as_str());
        }
        if owners.is_empty() {
            owners.insert(&context.user.name);
        }
        for owner in owners {
            let user = self.user(context, object, owner).await?;
            if !self.rights.may_ask_everywhere(&user).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
