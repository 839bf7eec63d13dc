//! Why a write of the status is refused.

use chrono::{DateTime, Utc};
use evacuation_api::ResponderState;

use crate::{Actor, Phase};

/// Why a write of the status is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// Right, but too early by the server's clock. To be answered with 409, the cause `NotYet` and `retryAfterSeconds`.
    #[error("too early: {what} not before {until}")]
    NotYet {
        /// What was to happen.
        what: String,
        /// When it may.
        until: DateTime<Utc>,
    },
    /// The Evacuation has ended.
    #[error("the evacuation has ended ({reason}) and its status never changes")]
    Finished {
        /// How it ended.
        reason: String,
    },
    /// The table knows no such transition, or what it asks for is not so.
    #[error("responder {responder} cannot go from {from:?} to {to:?}: {why}")]
    Transition {
        /// The responder's name.
        responder: String,
        /// Where it stands.
        from: ResponderState,
        /// Where the write has it.
        to: ResponderState,
        /// What is in the way.
        why: &'static str,
    },
    /// The table has no such change of the phase.
    #[error(
        "the evacuation cannot go from {from:?} to {to:?} by the {by:?}: the transition table does not have it"
    )]
    Phase {
        /// Phase before the write.
        from: Phase,
        /// Phase after the write.
        to: Phase,
        /// Actor of the write.
        by: Actor,
    },
    /// The list of responders is fixed, or is not in order.
    #[error("the responders are wrong: {why}")]
    Responders {
        /// How.
        why: &'static str,
    },
    /// The eviction's record cannot change so.
    #[error("the eviction is wrong: {why}")]
    Eviction {
        /// How.
        why: &'static str,
    },
    /// A condition says what is not so.
    #[error("condition {condition} is wrong: {why}")]
    Condition {
        /// The condition's type.
        condition: String,
        /// How.
        why: &'static str,
    },
}

impl StatusError {
    /// The cause's `reason` on the wire.
    pub fn cause(&self) -> &'static str {
        match self {
            Self::NotYet { .. } => "NotYet",
            Self::Finished { .. } => "EvacuationFinished",
            Self::Transition { .. } | Self::Phase { .. } => "TransitionNotAllowed",
            Self::Responders { .. } | Self::Eviction { .. } | Self::Condition { .. } => "FieldValueInvalid",
        }
    }

    /// The field that is to blame.
    pub fn field(&self) -> String {
        match self {
            Self::NotYet { .. } | Self::Finished { .. } | Self::Phase { .. } => "status".to_owned(),
            Self::Transition { responder, .. } => format!("status.responders[{responder}].state"),
            Self::Responders { .. } => "status.responders".to_owned(),
            Self::Eviction { .. } => "status.eviction".to_owned(),
            Self::Condition { condition, .. } => format!("status.conditions[{condition}]"),
        }
    }

    /// Whether time or the end is in the way (409), rather than what the write says (422).
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::NotYet { .. } | Self::Finished { .. })
    }

    /// How long to wait before trying again, in whole seconds, at least 1; `None` when waiting does not help.
    pub fn retry_after_seconds(&self, now: DateTime<Utc>) -> Option<u32> {
        let Self::NotYet { until, .. } = self else {
            return None;
        };
        let millis = until.signed_duration_since(now).num_milliseconds().max(1);
        Some(u32::try_from((millis + 999) / 1000).unwrap_or(u32::MAX))
    }
}
