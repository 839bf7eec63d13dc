//! The question of a responder at one moment.

use chrono::{DateTime, Utc};
use evacuation_api::{DeadlineAction, RefusalPolicy, Requester, ResponderStatus};

use crate::source::Source;

/// The requesters, the policy, the deadline and the responder's answer so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) requesters: Vec<Requester>,
    pub(crate) rehearsal: bool,
    pub(crate) on_refusal: RefusalPolicy,
    /// Time at which the pod goes, whatever the answer.
    pub(crate) deadline: Option<DateTime<Utc>>,
    pub(crate) responder: ResponderStatus,
}

impl Asked {
    /// Reads an object.
    pub(crate) fn of<S: Source>(object: &S, responder: &ResponderStatus) -> Self {
        let policy = object.status().and_then(|status| status.policy.clone());
        let policy = policy.unwrap_or_default();
        let deadline = policy
            .deadlines
            .iter()
            .find(|deadline| deadline.action != DeadlineAction::GiveUp)
            .map(|deadline| deadline.time.0);
        Self {
            requesters: object.spec().requesters.clone(),
            rehearsal: object.spec().rehearsal,
            on_refusal: policy.on_refusal,
            deadline,
            responder: responder.clone(),
        }
    }

    /// Returns whether requesters, policy and deadline are the same; the answer may differ.
    pub(crate) fn wants_as(&self, other: &Self) -> bool {
        (&self.requesters, self.on_refusal, self.deadline)
            == (&other.requesters, other.on_refusal, other.deadline)
    }
}
