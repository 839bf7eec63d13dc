//! What an object asks of a responder, as it stands.

use chrono::{DateTime, Utc};
use evacuation_api::{DeadlineAction, RefusalPolicy, Requester, ResponderStatus};

use crate::source::Source;

/// What is asked: by whom, until when, and what this responder said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) requesters: Vec<Requester>,
    pub(crate) on_refusal: RefusalPolicy,
    /// When the pod goes whatever is answered.
    pub(crate) deadline: Option<DateTime<Utc>>,
    pub(crate) responder: ResponderStatus,
}

impl Asked {
    /// What that object asks now.
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
            on_refusal: policy.on_refusal,
            deadline,
            responder: responder.clone(),
        }
    }

    /// Whether the same is wanted, whatever was answered meanwhile.
    pub(crate) fn wants_as(&self, other: &Self) -> bool {
        (&self.requesters, self.on_refusal, self.deadline)
            == (&other.requesters, other.on_refusal, other.deadline)
    }
}
