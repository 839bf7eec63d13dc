//! Errors of an edit of the requesters, or of a deletion.

/// The reason why an edit of the requesters, or a deletion, is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The entry belongs to another user. The verb `override` lifts this.
    #[error(
        "requester {requester} belongs to {owner}: only that user, or one with the verb override, changes or removes it"
    )]
    NotYours {
        /// The entry's name.
        requester: String,
        /// The user who made it.
        owner: String,
    },
    /// The Evacuation has ended.
    #[error("the evacuation has ended ({reason}) and cannot be joined or changed")]
    Finished {
        /// The reason of the end.
        reason: String,
    },
    /// An attempt to evict was made whose outcome is not recorded yet.
    #[error(
        "an eviction is in flight: requester {requester} can neither withdraw nor wait for another window until its outcome is recorded"
    )]
    EvictionInFlight {
        /// The entry that was to be withdrawn, or to wait.
        requester: String,
    },
    /// The pod is on its way out, which cannot be undone.
    #[error(
        "the eviction was accepted and the pod is on its way out: requester {requester} can no longer withdraw, nor wait for another window"
    )]
    EvictionAccepted {
        /// The entry that was to be withdrawn, or to wait.
        requester: String,
    },
    /// The entry's GiveUp deadline was reached. The entry can be removed and created again.
    #[error(
        "requester {requester} has lapsed: its deadline was reached, and a changed entry would not count"
    )]
    Lapsed {
        /// The entry's name.
        requester: String,
    },
}

impl EditError {
    /// The cause's `reason` on the wire.
    pub fn cause(&self) -> &'static str {
        match self {
            Self::NotYours { .. } => "RequesterOfAnother",
            Self::Finished { .. } => "EvacuationFinished",
            Self::EvictionInFlight { .. } => "EvictionInFlight",
            Self::EvictionAccepted { .. } => "EvictionAccepted",
            Self::Lapsed { .. } => "RequesterLapsed",
        }
    }

    /// Returns true when the caller lacks the right (403), and false when the state of the Evacuation forbids
    /// the edit (409).
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::NotYours { .. })
    }
}
