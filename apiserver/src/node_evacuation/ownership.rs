//! Rules 3 and 5 for drains: the rights of the requester, and the verb `override` for all others.

use chrono::{DateTime, Utc};
use evacuation_api::{CordonOwner, DeadlineAction, DrainConditionType, NodeEvacuation, NodeEvacuationSpec};
use machinery_auth::UserInfo;
use machinery_server::{ApiError, Cause, RequestContext};

use super::NodeEvacuationStrategy;
use crate::refusal;

/// Cause of a rejected change or deletion: the drain belongs to another user.
const OF_ANOTHER: &str = "NodeEvacuationOfAnother";
/// Cause of a rejected change: the drain has ended.
const FINISHED: &str = "NodeEvacuationFinished";

impl NodeEvacuationStrategy {
    /// Requires the rights of a user that the drain's request needs in the whole cluster.
    pub(super) async fn require_rights(
        &self,
        user: &UserInfo,
        drain: &NodeEvacuation,
    ) -> Result<(), ApiError> {
        let deletes = drain.spec.requester.at_deadline == Some(DeadlineAction::Delete);
        self.rights.require_drain(user, (NodeEvacuation::PLURAL, name(drain)), deletes).await
    }

    /// Requires that the drain belongs to the caller, or the verb `override`. `act` completes the message
    /// "User U cannot".
    pub(super) async fn require_ownership(
        &self,
        context: &RequestContext,
        drain: &NodeEvacuation,
        act: &str,
    ) -> Result<(), ApiError> {
        let owner = drain.status.as_ref().and_then(|status| status.requester.as_ref());
        let object = (NodeEvacuation::PLURAL, name(drain));
        self.rights.require_ownership(context, object, owner, act, OF_ANOTHER).await
    }
}

/// Returns true when a change does more than pause or resume the drain: then it needs the rights of a
/// creation. To resume asks for nothing that the drain's user was not authorised for at its creation.
pub(super) fn request_differs(spec: &NodeEvacuationSpec, old: &NodeEvacuationSpec) -> bool {
    NodeEvacuationSpec { paused: old.paused, ..spec.clone() } != *old
}

/// Returns true when the deletion of the drain changes nothing: it has ended, and holds no node.
pub(super) fn holds_nothing(drain: &NodeEvacuation) -> bool {
    let Some(status) = &drain.status else { return false };
    let held = status.nodes.iter().any(|node| node.cordoned == CordonOwner::Ours);
    status.is_true(DrainConditionType::Finished) && !held
}

/// Returns true when the drain has ended and its time to live is over: its user asked for the deletion.
pub(super) fn is_expired(drain: &NodeEvacuation, now: DateTime<Utc>) -> bool {
    evacuation_protocol::drain_expiry(drain).is_some_and(|time| time <= now)
}

/// Returns the conflict of a change of a drain that has ended.
pub(super) fn ended(drain: &NodeEvacuation) -> ApiError {
    let why = "the drain has ended, and its spec can no longer change";
    let cause = Cause { reason: FINISHED.to_owned(), message: why.to_owned(), field: "spec".to_owned() };
    refusal::conflict_of(NodeEvacuation::PLURAL, name(drain), why, cause, None)
}

fn name(drain: &NodeEvacuation) -> &str {
    drain.metadata.name.as_deref().unwrap_or_default()
}
