//! Why an edit of the requesters, or a deletion, is refused.

/// Why an edit of the requesters, or a deletion, is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The entry is somebody else's. The verb `override` lifts this.
    #[error(
        "requester {requester} belongs to {owner}: only that user, or one with the verb override, changes or removes it"
    )]
    NotYours {
        /// The entry's name.
        requester: String,
        /// Who made it.
        owner: String,
    },
    /// The Evacuation has ended.
    #[error("the evacuation has ended ({reason}) and cannot be joined or changed")]
    Finished {
        /// How it ended.
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
    /// The entry's GiveUp deadline was reached. It can be removed, and made anew.
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

    /// Whether the caller is in the way (403), rather than the state of the Evacuation (409).
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::NotYours { .. })
    }
}
