//! Who wants the pod moved: rule 3 and the fence.

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, EvacuationSpec, EvacuationStatus, RecordedRequester, Requester};

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
    #[error("an eviction is in flight: requester {requester} cannot withdraw until its outcome is recorded")]
    EvictionInFlight {
        /// The entry that was to be withdrawn.
        requester: String,
    },
    /// The pod is on its way out, which cannot be undone.
    #[error(
        "the eviction was accepted and the pod is on its way out: requester {requester} can no longer withdraw"
    )]
    EvictionAccepted {
        /// The entry that was to be withdrawn.
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

/// What an edit of the requesters does. Holds the names of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequesterEdit {
    /// Entries that are new.
    pub added: Vec<String>,
    /// Entries that say something else than before.
    pub changed: Vec<String>,
    /// Entries that are gone.
    pub removed: Vec<String>,
    /// Those of `changed` that ask for more than before. Doubtful cases count.
    pub hardened: Vec<String>,
    /// Those of `added` and `hardened` whose deadline deletes the pod: the caller needs `delete pods`.
    pub deleting: Vec<String>,
}

impl RequesterEdit {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }

    /// Whether the caller needs `create pods/eviction` on the target (rule 5).
    pub fn needs_eviction_right(&self) -> bool {
        !self.added.is_empty() || !self.hardened.is_empty()
    }

    /// Whether the caller needs `delete pods` on the target (rule 5).
    pub fn needs_deletion_right(&self) -> bool {
        !self.deleting.is_empty()
    }
}

/// Rule 3 and the fence, for an update of the spec by `user`. Both specs are defaulted.
///
/// Call it with `may_override` false first; only [`EditError::NotYours`] is worth asking for the verb `override`.
pub fn check_requester_edit(
    old: &Evacuation,
    new: &EvacuationSpec,
    user: &str,
    may_override: bool,
) -> Result<RequesterEdit, EditError> {
    let _ = (old, new, user, may_override);
    unimplemented!()
}

/// Who made each entry after the edit. A changed entry keeps its maker, also when another changed it by `override`, so that the
/// maker can still withdraw it.
pub fn record_requesters(
    recorded: &[RecordedRequester],
    edit: &RequesterEdit,
    requesters: &[Requester],
    user: &str,
    groups: &[String],
    now: DateTime<Utc>,
) -> Vec<RecordedRequester> {
    let _ = (recorded, edit, requesters, user, groups, now);
    unimplemented!()
}

/// The status after an edit that [`check_requester_edit`] allowed: recorded requesters and policy are made anew,
/// and when the last entry left the Evacuation is canceled.
pub fn apply_requester_edit(
    old: &Evacuation,
    new: &EvacuationSpec,
    edit: &RequesterEdit,
    user: &str,
    groups: &[String],
    now: DateTime<Utc>,
) -> EvacuationStatus {
    let _ = (old, new, edit, user, groups, now);
    unimplemented!()
}

/// The status of a new Evacuation that `user` creates.
pub fn begin(spec: &EvacuationSpec, user: &str, groups: &[String], now: DateTime<Utc>) -> EvacuationStatus {
    let _ = (spec, user, groups, now);
    unimplemented!()
}
