//! Phases of an Evacuation.

use evacuation_api::{ConditionType, Evacuation, EvacuationStatus, ResponderState};

/// The phase of an Evacuation. [`phase`](phase()) derives it from the status; it is never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
pub enum Phase {
    /// Created; no responder was asked yet, and no eviction was attempted.
    Pending,
    /// A responder is Active, or the next one is to become Active.
    Asking,
    /// Every responder is done: the evictor has it.
    Evicting,
    /// The pod is gone or has ended.
    Evacuated,
    /// The pod was left alone.
    Failed,
}

impl Phase {
    /// Returns the word for people.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns true when the phase is the last one.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Evacuated | Self::Failed)
    }
}

/// Returns the phase of an Evacuation.
pub fn phase(evacuation: &Evacuation) -> Phase {
    evacuation.status.as_ref().map_or(Phase::Pending, phase_of)
}

pub(crate) fn phase_of(status: &EvacuationStatus) -> Phase {
    if status.is_true(ConditionType::Evacuated) {
        Phase::Evacuated
    } else if status.is_true(ConditionType::Failed) {
        Phase::Failed
    } else {
        match &status.responders {
            None => Phase::Pending,
            Some(all) if all.is_empty() && status.eviction.is_none() => Phase::Pending,
            Some(all) if all.iter().all(|r| r.state.is_done()) => Phase::Evicting,
            Some(all) if all.iter().all(|r| r.state == ResponderState::Inactive) => Phase::Pending,
            Some(_) => Phase::Asking,
        }
    }
}
