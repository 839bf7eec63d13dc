//! Errors in a write of the status.

use chrono::{DateTime, Utc};
use evacuation_api::{Policy, ResponderState};

use crate::status::{Actor, Phase};

/// Reason to reject a write of the status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// Valid, but too early by the server's clock. The reply is a 409 with the cause `NotYet` and
    /// `retryAfterSeconds`.
    #[error("too early: {what} not before {until}")]
    NotYet {
        /// The step that is too early.
        what: String,
        /// The time from which the step is allowed.
        until: DateTime<Utc>,
    },
    /// The Evacuation has ended.
    #[error("the evacuation has ended ({reason}) and its status never changes")]
    Finished {
        /// The reason of the end.
        reason: String,
    },
    /// The table has no such transition, or its condition does not hold.
    #[error("responder {responder} cannot go from {from:?} to {to:?}: {why}")]
    Transition {
        /// The responder's name.
        responder: String,
        /// The state of the responder.
        from: ResponderState,
        /// The state in the write.
        to: ResponderState,
        /// The rule that forbids it.
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
        /// The rule that forbids it.
        why: &'static str,
    },
    /// The record of the eviction cannot change in this way.
    #[error("the eviction is wrong: {why}")]
    Eviction {
        /// The rule that forbids it.
        why: &'static str,
    },
    /// A condition contradicts the stored state.
    #[error("condition {condition} is wrong: {why}")]
    Condition {
        /// The condition's type.
        condition: String,
        /// The rule that forbids it.
        why: &'static str,
    },
}

impl StatusError {
    /// Returns the error of a write that negotiates or evicts while every live entry sleeps.
    pub(super) fn asleep(policy: &Policy) -> Self {
        match policy.next_window_time {
            Some(until) => Self::NotYet { what: "a requester wakes".to_owned(), until: until.0 },
            None => Self::Responders { why: "every requester sleeps" },
        }
    }

    /// Returns the cause's `reason` on the wire.
    pub fn cause(&self) -> &'static str {
        match self {
            Self::NotYet { .. } => "NotYet",
            Self::Finished { .. } => "EvacuationFinished",
            Self::Transition { .. } | Self::Phase { .. } => "TransitionNotAllowed",
            Self::Responders { .. } | Self::Eviction { .. } | Self::Condition { .. } => "FieldValueInvalid",
        }
    }

    /// Returns the field that the error is about.
    pub fn field(&self) -> String {
        match self {
            Self::NotYet { .. } | Self::Finished { .. } | Self::Phase { .. } => "status".to_owned(),
            Self::Transition { responder, .. } => format!("status.responders[{responder}].state"),
            Self::Responders { .. } => "status.responders".to_owned(),
            Self::Eviction { .. } => "status.eviction".to_owned(),
            Self::Condition { condition, .. } => format!("status.conditions[{condition}]"),
        }
    }

    /// Returns true when the time or the end forbids the write (409), and false when its content does (422).
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::NotYet { .. } | Self::Finished { .. })
    }

    /// Returns the delay before a retry, in whole seconds, at least 1. `None` when waiting does not help.
    pub fn retry_after_seconds(&self, now: DateTime<Utc>) -> Option<u32> {
        let Self::NotYet { until, .. } = self else {
            return None;
        };
        let millis = until.signed_duration_since(now).num_milliseconds().max(1);
        Some(u32::try_from((millis + 999) / 1000).unwrap_or(u32::MAX))
    }
}
