//! Errors of an answer.

use evacuation_api::ResponderState;

/// The bound that leaves no delay to grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DelayBound {
    /// The deadline of that requester.
    Deadline {
        /// The requester's name.
        requester: String,
    },
    /// The longest total delay that the responder registered.
    MaxDelay {
        /// In seconds.
        seconds: i64,
    },
}

impl std::fmt::Display for DelayBound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Deadline { requester } => write!(f, "the deadline of requester {requester}"),
            Self::MaxDelay { seconds } => write!(f, "the longest total delay of {seconds} s"),
        }
    }
}

/// Reason to reject an answer.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr, thiserror::Error)]
pub enum AnswerError {
    /// The answer is for another Evacuation of the same name.
    #[error("the answer is for the evacuation with UID {given}, and this one has UID {actual}")]
    WrongEvacuation {
        /// The UID in the answer.
        given: String,
        /// The Evacuation's.
        actual: String,
    },
    /// The answer is for another pod.
    #[error("the answer is for the pod with UID {given}, and the target has UID {actual}")]
    WrongPod {
        /// The UID in the answer.
        given: String,
        /// The target's.
        actual: String,
    },
    /// No such responder was registered when the Evacuation started.
    #[error("the evacuation has no responder {responder}")]
    NoSuchResponder {
        /// The responder's name.
        responder: String,
    },
    /// The Evacuation has not started: its responders are not known yet.
    #[error("the evacuation has not started, and responder {responder} is not known yet")]
    #[strum(serialize = "EvacuationNotStarted")]
    NotStarted {
        /// The responder's name.
        responder: String,
    },
    /// The Evacuation has ended.
    #[error("the evacuation has ended: {reason}")]
    #[strum(serialize = "EvacuationFinished")]
    Finished {
        /// The reason of the end.
        reason: String,
    },
    /// The responder is not Active yet, or no longer.
    #[error("responder {responder} is {state:?} and not Active")]
    #[strum(serialize = "ResponderNotActive")]
    NotActive {
        /// The responder's name.
        responder: String,
        /// The state of the responder.
        state: ResponderState,
    },
    /// The responder has accepted, and that binds.
    #[error("responder {responder} has accepted, which binds until the eviction or the cancellation")]
    AlreadyAccepted {
        /// The responder's name.
        responder: String,
    },
    /// No delay is left.
    #[error("responder {responder} cannot delay any longer: {bound} is reached")]
    DelayExhausted {
        /// The responder's name.
        responder: String,
        /// The bound that was reached.
        bound: DelayBound,
    },
    /// There is no cancellation to acknowledge.
    #[error("responder {responder} is {state:?} and not Canceled")]
    NotCanceled {
        /// The responder's name.
        responder: String,
        /// The state of the responder.
        state: ResponderState,
    },
    /// The response holds neither an answer nor an acknowledgement, or a Delay without its length. Validation
    /// missed it.
    #[error("the response of {responder} is incomplete")]
    #[strum(serialize = "FieldValueRequired")]
    Incomplete {
        /// The responder's name.
        responder: String,
    },
}

impl AnswerError {
    /// Returns the cause's `reason` on the wire.
    pub fn cause(&self) -> &'static str {
        self.into()
    }

    /// Returns true when the state of the Evacuation forbids the answer (409), and false when its content
    /// does (422).
    pub fn is_conflict(&self) -> bool {
        !matches!(self, Self::DelayExhausted { .. } | Self::Incomplete { .. } | Self::NoSuchResponder { .. })
    }

    /// Returns the delay before a retry, in whole seconds. `None` when waiting does not help.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        matches!(self, Self::NotStarted { .. }).then_some(1)
    }

    /// Returns the field of the response that the error is about; empty when there is none.
    pub fn field(&self) -> &'static str {
        match self {
            Self::WrongEvacuation { .. } => "spec.evacuationUid",
            Self::WrongPod { .. } => "spec.podUid",
            Self::NoSuchResponder { .. } | Self::NotStarted { .. } => "spec.responder",
            Self::DelayExhausted { .. } => "spec.delaySeconds",
            Self::AlreadyAccepted { .. } | Self::Incomplete { .. } => "spec.answer",
            Self::NotCanceled { .. } => "spec.acknowledgeCancellation",
            Self::Finished { .. } | Self::NotActive { .. } => "",
        }
    }
}
