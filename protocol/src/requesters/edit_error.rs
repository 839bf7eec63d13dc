//! Reasons to reject an edit of the requesters, or a deletion.

use evacuation_api::MAX_REQUESTERS;

/// Reason to reject an edit of the requesters, or a deletion.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr, thiserror::Error)]
pub enum EditError {
    /// The entry belongs to another user. The verb `override` lifts this.
    #[error(
        "requester {requester} belongs to user {owner}: only that user, or a user with the verb override, writes it"
    )]
    #[strum(serialize = "RequesterOfAnother")]
    NotYours {
        /// The entry's name.
        requester: String,
        /// The entry's owner.
        owner: String,
    },
    /// The common maximum is reached. The verb `override` lifts this.
    #[error("there are {MAX_REQUESTERS} requesters: only a user with the verb override adds more")]
    #[strum(serialize = "TooManyRequesters")]
    Full,
    /// The entry's name is one of those that move no other pod of a PodGroup and wait for no budget, which
    /// only the gateway and the controller give. The verb `override` lifts this.
    #[error(
        "requester {requester}: the name is reserved, and only a user with the verb override writes an entry with it"
    )]
    #[strum(serialize = "ReservedName")]
    Reserved {
        /// The entry's name.
        requester: String,
    },
    /// The field says how a deletion behind the entry goes on, which only the gateway knows. The verb
    /// `override` lifts this.
    #[error("requester {requester}: {field} is reserved, and only a user with the verb override sets it")]
    #[strum(serialize = "ReservedField")]
    ReservedField {
        /// The entry's name.
        requester: String,
        /// The field's name.
        field: &'static str,
    },
    /// The caller may not change the time to live so. The verb `override` lifts this.
    #[error("ttlSecondsAfterFinished cannot be set so: {why}, and the user does not have the verb override")]
    #[strum(serialize = "RetentionOfOthers")]
    Retention {
        /// The reason.
        why: &'static str,
    },
    /// The Evacuation has ended.
    #[error("the evacuation has ended ({reason}) and cannot be joined or changed")]
    #[strum(serialize = "EvacuationFinished")]
    Finished {
        /// Reason of the condition `Finished`.
        reason: String,
    },
    /// The request would remove entries that its sender may not know of.
    #[error(
        "without metadata.resourceVersion no requester is removed, and these would be: {}; read the evacuation again",
        .requesters.join(", ")
    )]
    #[strum(serialize = "ResourceVersionRequired")]
    Unguarded {
        /// The entries that the request would remove.
        requesters: Vec<String>,
    },
    /// The outcome of an attempt to evict is not recorded yet.
    #[error(
        "an eviction is in flight: requester {requester} cannot withdraw, sleep or give up sooner until its outcome is recorded"
    )]
    EvictionInFlight {
        /// The entry that the request would withdraw.
        requester: String,
    },
    /// The API accepted the eviction, which cannot be undone.
    #[error(
        "the eviction was accepted: requester {requester} can no longer withdraw, sleep or give up sooner"
    )]
    EvictionAccepted {
        /// The entry that the request would withdraw.
        requester: String,
    },
    /// The entry's GiveUp deadline was reached. Its owner can remove it and add it again.
    #[error(
        "requester {requester} has expired: its deadline was reached, and a changed entry would not count"
    )]
    #[strum(serialize = "RequesterExpired")]
    Expired {
        /// The entry.
        requester: String,
    },
}

impl EditError {
    /// Returns the cause's `reason` on the wire.
    pub fn cause(&self) -> &'static str {
        self.into()
    }

    /// Returns true when the caller lacks a right (403), which the verb `override` gives. The other errors
    /// come from the state of the Evacuation (409).
    pub fn is_forbidden(&self) -> bool {
        matches!(
            self,
            Self::NotYours { .. }
                | Self::Full
                | Self::Reserved { .. }
                | Self::ReservedField { .. }
                | Self::Retention { .. }
        )
    }

    /// Returns the field that the error is about.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Retention { .. } => "spec.ttlSecondsAfterFinished",
            Self::Unguarded { .. } => "metadata.resourceVersion",
            _ => "spec.requesters",
        }
    }
}
