//! Owner of the work: the last asker that counts.

use evacuation_client::Question;

/// Owner of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An evacuation, by its UID.
    Evacuation(String),
    /// A rehearsal, by its UID.
    Rehearsal(String),
    /// A preStop hook, which cannot be canceled.
    PreStop,
}

impl Owner {
    /// Returns the owner that a question stands for.
    pub(crate) fn of(question: &Question) -> Self {
        let uid = question.uid().to_owned();
        if question.is_rehearsal() { Self::Rehearsal(uid) } else { Self::Evacuation(uid) }
    }

    /// Returns the UID of the evacuation. None for a preStop hook.
    pub(crate) fn uid(&self) -> Option<&str> {
        match self {
            Self::Evacuation(uid) | Self::Rehearsal(uid) => Some(uid),
            Self::PreStop => None,
        }
    }

    /// Returns true for a rehearsal.
    pub(crate) fn rehearses(&self) -> bool {
        matches!(self, Self::Rehearsal(_))
    }

    /// Returns true when the work of this owner does not count for that one.
    pub(crate) fn is_superseded_by(&self, asker: &Self) -> bool {
        match (self, asker) {
            (Self::Rehearsal(_), _) | (Self::Evacuation(_), Self::Evacuation(_)) => self != asker,
            (Self::Evacuation(_) | Self::PreStop, _) => false,
        }
    }
}
