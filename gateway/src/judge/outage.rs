//! The decision about a call while the evacuation API does not answer, or nobody acts.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{DeadlineAction, Evacuation};
use evacuation_protocol::{
    Hold, Opening, Outage, OutageCause, Recorded, budget_blocked_since, hold_in_outage, recorded,
};

use super::{Facts, Pass, Reply, Verdict, entry, expired_in, group, patience};

/// Way out of an outage: the reason for which a call passes that would wait otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WayOut {
    /// The app was asked, and no answer of it holds.
    Unanswered(OutageCause),
    /// Nobody acts, and the caller leaves the eviction to the controller. The app was not asked.
    NobodyActs,
    /// An answer held for as long as an outage can make it hold.
    HoldEnded(OutageCause),
    /// An Evacuation that cannot be read held for as long as an outage of the API can make an answer hold.
    UnreadableHoldEnded,
    /// A deadline was reached or a refusal is overridden, and nobody can record that.
    Unrecorded(OutageCause),
}

impl WayOut {
    /// Returns the word for metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unanswered(OutageCause::Api) => "unanswered_api_down",
            Self::Unanswered(OutageCause::Leaderless) => "unanswered_no_controller",
            Self::NobodyActs => "no_controller",
            Self::HoldEnded(_) => "hold_ended",
            Self::UnreadableHoldEnded => "unreadable",
            Self::Unrecorded(_) => "unrecorded",
        }
    }

    /// Returns the reason of the Event.
    pub(crate) fn event(self) -> &'static str {
        match self {
            Self::Unanswered(_) => "PassedUnanswered",
            Self::NobodyActs => "PassedUnasked",
            Self::HoldEnded(_) | Self::UnreadableHoldEnded => "PassedHoldEnded",
            Self::Unrecorded(_) => "PassedUnrecorded",
        }
    }

    /// Returns the state of the app's answer, as the rest of a sentence: "alice could evict the pod ...".
    pub(crate) fn words(self) -> String {
        let (state, cause) = match self {
            Self::Unanswered(cause) => ("without an answer of its app", cause),
            Self::NobodyActs => ("unasked", OutageCause::Leaderless),
            Self::HoldEnded(cause) => ("although an answer of its app held it, for the longest time", cause),
            Self::UnreadableHoldEnded => {
                ("although an unreadable evacuation held it, for the longest time", OutageCause::Api)
            }
            Self::Unrecorded(cause) => ("after a deadline or an overridden refusal", cause),
        };
        format!("{state}: {}", cause_words(cause))
    }
}

/// Returns an outage in words.
pub(super) fn cause_words(cause: OutageCause) -> &'static str {
    match cause {
        OutageCause::Api => "the evacuation API does not answer",
        OutageCause::Leaderless => "no controller leads",
    }
}

/// Decides about a call in an outage, from what would be decided without it.
///
/// An answer of the app keeps its calls until it ends or the bound is reached. No call waits for ever.
pub(super) fn in_outage(facts: &Facts<'_>, outage: Outage, usual: Verdict) -> Verdict {
    match usual {
        // What passes anyway does, the live pod decides first, and a pod that is gone is gone.
        Verdict::Pass(_) | Verdict::Look => usual,
        Verdict::Wait(reply) if reply.code == 404 => Verdict::Wait(reply),
        usual if facts.active.is_some_and(|active| group::acts_alone(facts, active)) => {
            of_pod(facts, outage, usual)
        }
        usual => match group::held_in_outage(facts, outage) {
            Some((mate, until)) => held(facts, outage, mate, until, usual),
            None => of_pod(facts, outage, usual),
        },
    }
}

/// Decides by the records of the pod itself.
fn of_pod(facts: &Facts<'_>, outage: Outage, usual: Verdict) -> Verdict {
    match (usual, facts.active) {
        (usual, Some(active)) => with_record(facts, outage, active, usual),
        // The record of a refusal, which ends by itself.
        (usual @ Verdict::Wait(_), None) if facts.now < bound(facts, outage) => usual,
        (Verdict::Wait(_), None) => Verdict::Open(WayOut::HoldEnded(outage.cause)),
        (usual @ Verdict::Ask { .. }, None) => match facts.unreadable {
            Some(name) => of_unreadable(facts, outage, name, usual),
            None if leaves_it_to_the_controller(facts, outage) => Verdict::Open(WayOut::NobodyActs),
            None => usual,
        },
        (usual, None) => usual,
    }
}

/// Decides about a call for a pod whose Evacuation cannot be read: its app may have asked for time there, or
/// refused.
fn of_unreadable(facts: &Facts<'_>, outage: Outage, name: &str, usual: Verdict) -> Verdict {
    let until = bound(facts, outage);
    match outage.cause {
        // The API says what it can read by now.
        OutageCause::Leaderless => usual,
        OutageCause::Api if facts.now < until => {
            Verdict::Wait(Reply::unread(facts.call, facts.row, name, Some(until)))
        }
        OutageCause::Api => Verdict::Open(WayOut::UnreadableHoldEnded),
    }
}

fn with_record(facts: &Facts<'_>, outage: Outage, active: &Evacuation, usual: Verdict) -> Verdict {
    let record = recorded(active, facts.now);
    let others_wait = || record != Recorded::Forced && group::waits_in_outage(facts, active, outage);
    let leaves = leaves_it_to_the_controller(facts, outage);
    match hold_in_outage(record, outage, facts.longest_hold, facts.now) {
        Hold::Until(until) => held(facts, outage, active, until, usual),
        Hold::Waits if !leaves => usual,
        Hold::Done if !group::is_held(facts, active) => counted(facts, outage, active),
        // Two of the ways to be done: the app has accepted, and its refusal is overridden.
        Hold::Done | Hold::Opens(Opening::Unheld) if others_wait() => usual,
        Hold::Opens(Opening::Unanswered) if !leaves && others_wait() => usual,
        Hold::Done if group::held_to_the_bound(facts, outage) => {
            Verdict::Open(WayOut::HoldEnded(outage.cause))
        }
        Hold::Done | Hold::Waits | Hold::Opens(Opening::Unanswered) => {
            Verdict::Open(WayOut::Unanswered(outage.cause))
        }
        Hold::Opens(Opening::HoldEnded) => Verdict::Open(WayOut::HoldEnded(outage.cause)),
        Hold::Opens(Opening::Unheld) => Verdict::Open(WayOut::Unrecorded(outage.cause)),
    }
}

/// Decides about a call that an answer holds until then: that of the pod's app, or of another pod's in its
/// PodGroup.
fn held(
    facts: &Facts<'_>,
    outage: Outage,
    answered: &Evacuation,
    until: DateTime<Utc>,
    usual: Verdict,
) -> Verdict {
    match outage.cause {
        // The API takes the renewal of an entry.
        OutageCause::Leaderless => usual,
        OutageCause::Api => {
            let words = cause_words(outage.cause);
            Verdict::Wait(Reply::held(facts, answered, words, until))
        }
    }
}

/// Decides about a deletion of which every responder is done: nobody evicts the pod in the budget's turn, so
/// each try of the caller is counted by itself. A budget that was not the reason before the outage can be it
/// since then. A caller whose entry has expired stopped trying: it waits as one without an entry, and gets a
/// new one.
fn counted(facts: &Facts<'_>, outage: Outage, active: &Evacuation) -> Verdict {
    let expired_in = expired_in(facts, active);
    let joined = patience::joined(facts.call, facts.row, active).filter(|_| expired_in.is_none());
    let joined = joined.unwrap_or(outage.since);
    let blocked = active.status.as_ref().and_then(budget_blocked_since);
    let since = joined.max(blocked.unwrap_or(outage.since));
    let over = facts.now - since >= TimeDelta::seconds(facts.row.blocked_patience_seconds.into());
    if over {
        Verdict::Pass(Pass::BlockedTooLong)
    } else {
        Verdict::Count { entry: Box::new(entry::entry(facts)), expired_in }
    }
}

/// Returns true when nobody acts, and the caller's row has the controller evict the pod at a deadline. Such a
/// caller, as taint eviction, gives up after few tries.
fn leaves_it_to_the_controller(facts: &Facts<'_>, outage: Outage) -> bool {
    outage.cause == OutageCause::Leaderless && facts.row.at_deadline != DeadlineAction::GiveUp
}

fn bound(facts: &Facts<'_>, outage: Outage) -> DateTime<Utc> {
    outage.since.checked_add_signed(facts.longest_hold).unwrap_or(DateTime::<Utc>::MAX_UTC)
}
