//! The decision about one call: a pure function of the call and of the objects that concern it.

mod entry;
mod exemption;
mod group;
mod outage;
mod patience;
mod progress;
mod reply;
mod successor;
mod unwritten;

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{
    CallerAct, CallerRow, DeadlineAction, Evacuation, Operation, RefusalPolicy, Requester, RequesterKey,
};
use evacuation_protocol::{Outage, has_expired, needs_none};
use k8s_openapi::api::core::v1::Pod;

pub(crate) use self::{
    entry::cuts_grace,
    exemption::{Trusted, is_forced},
    group::{Mate, asked_mate},
    outage::WayOut,
    reply::{NO_ROOM, REJECTED, Reply, UNREADABLE},
    successor::other_node,
    unwritten::{Unwritten, unwritten},
};
use self::{entry::entry, exemption::exemption, progress::Progress, successor::Meaning};
use crate::{call::Call, namespace::NamespaceFacts};

/// The call, and the objects that concern it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) call: &'a Call,
    pub(crate) pod: &'a Pod,
    pub(crate) sight: Sight,
    /// True when responders are registered for the pod.
    pub(crate) registered: bool,
    pub(crate) namespace: NamespaceFacts,
    /// The Evacuation of this very pod that has not ended.
    pub(crate) active: Option<&'a Evacuation>,
    /// The Evacuation of this very pod that ended last.
    pub(crate) last: Option<&'a Evacuation>,
    /// The Evacuation that ended last of an earlier pod of the same name.
    pub(crate) predecessor: Option<&'a Evacuation>,
    /// Name of the Evacuation of this very pod that the API server could not read when it last answered.
    pub(crate) unreadable: Option<&'a str>,
    /// The other pods of the pod's PodGroup, if they move together with it.
    pub(crate) group: &'a [Mate],
    pub(crate) row: &'a CallerRow,
    pub(crate) trusted: &'a Trusted,
    /// The outage that lasts now, if there is one.
    pub(crate) outage: Option<Outage>,
    /// Maximum time from the start of an outage in which an answer holds.
    pub(crate) longest_hold: TimeDelta,
    pub(crate) now: DateTime<Utc>,
}

/// Certainty of the view of the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The pod is from the cache. By now another may have its name, or it may have changed.
    Cached {
        /// True when the watch of pods has delivered something a moment ago.
        fresh: bool,
    },
    /// The kube-apiserver has just shown the pod.
    Live {
        /// True when the node of the earlier pod of this name takes no more pods like this one, and the node
        /// of this pod does.
        drained_before: bool,
    },
}

/// Reason for which a call passes without a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// The caller belongs to the machinery of Kubernetes or of this project.
    Exempt,
    /// The pod is one of this project's own.
    OwnNamespace,
    /// The pod's namespace is deleted.
    NamespaceTerminating,
    /// The pod terminates, has ended or mirrors a static one.
    Leaving,
    /// The kube-apiserver will reject the call: its precondition names another pod.
    OtherPod,
    /// The caller's row lets it pass.
    Row,
    /// The pod has no responders, and its namespace did not opt in.
    Unregistered,
    /// Every responder is done.
    RespondersDone,
    /// The caller forced the deletion and holds the verb `override`.
    Forced,
    /// A budget held the deletion back for longer than the row allows.
    BlockedTooLong,
    /// The eviction API evicted the pod on behalf of the deletion.
    Counted,
    /// The deletion could not be counted.
    Uncounted,
    /// The pod's owner no longer wants the pod, so no budget has to protect it.
    Surplus,
}

impl Pass {
    /// Returns true when a cached pod is not enough for this pass: a later pod of the name could be another
    /// matter, or the pod itself after a change.
    ///
    /// Most calls are for pods without responders. Those pass by a fresh cache, so that they cost no request.
    fn needs_look(self, fresh: bool) -> bool {
        match self {
            Self::Exempt | Self::OwnNamespace | Self::NamespaceTerminating => false,
            Self::Row | Self::Unregistered => !fresh,
            Self::Leaving
            | Self::OtherPod
            | Self::RespondersDone
            | Self::Forced
            | Self::BlockedTooLong
            | Self::Counted
            | Self::Uncounted
            | Self::Surplus => true,
        }
    }

    /// Returns true for a pass by what an active Evacuation records.
    pub(crate) fn is_of_record(self) -> bool {
        matches!(self, Self::RespondersDone | Self::BlockedTooLong | Self::Uncounted | Self::Surplus)
    }

    /// Returns the word for metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Exempt => "exempt",
            Self::OwnNamespace => "own_namespace",
            Self::NamespaceTerminating => "namespace_terminating",
            Self::Leaving => "leaving",
            Self::OtherPod => "other_pod",
            Self::Row => "row",
            Self::Unregistered => "unregistered",
            Self::RespondersDone => "responders_done",
            Self::Forced => "forced",
            Self::BlockedTooLong => "blocked_too_long",
            Self::Counted => "counted",
            Self::Uncounted => "uncounted",
            Self::Surplus => "surplus",
        }
    }
}

/// The decision about a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The call passes.
    Pass(Pass),
    /// The entry is to be written, and then the caller waits.
    Ask {
        /// The caller's entry.
        entry: Box<Requester>,
        /// Name of the Evacuation that holds an expired entry of the caller, which must be removed first.
        expired_in: Option<String>,
    },
    /// The caller waits, and nothing is written.
    Wait(Reply),
    /// The call passes because of an outage.
    Open(WayOut),
    /// The deletion is to count against budgets. The entry is to be written if a budget holds it back.
    Count {
        /// The caller's entry.
        entry: Box<Requester>,
        /// Name of the Evacuation that holds an expired entry of the caller, which must be removed first.
        expired_in: Option<String>,
    },
    /// The cached pod is not enough: the live one decides.
    Look,
}

impl Verdict {
    /// Returns true when the caller waits for the app, or for a budget.
    pub(crate) fn holds(&self) -> bool {
        match self {
            Self::Ask { .. } | Self::Count { .. } => true,
            Self::Wait(reply) => reply.code == 429,
            Self::Pass(_) | Self::Open(_) | Self::Look => false,
        }
    }
}

/// Returns true for a verdict that the record of an active Evacuation lets pass, or be counted. A read has to
/// confirm that record, unless the API `is_away`: a watch can be silent for a while without an error.
pub(crate) fn is_of_record(verdict: &Verdict, is_away: bool) -> bool {
    match verdict {
        Verdict::Pass(pass) => pass.is_of_record(),
        Verdict::Open(_) | Verdict::Count { .. } => !is_away,
        Verdict::Ask { .. } | Verdict::Wait(_) | Verdict::Look => false,
    }
}

/// Decides about a call. No call passes by a cached pod that may have changed.
pub(crate) fn judge(facts: &Facts<'_>) -> Verdict {
    let usual = without_outage(facts);
    let verdict = match facts.outage {
        Some(outage) => outage::in_outage(facts, outage, usual),
        None => usual,
    };
    match (facts.sight, &verdict) {
        (Sight::Cached { fresh }, Verdict::Pass(pass)) if pass.needs_look(fresh) => Verdict::Look,
        (Sight::Cached { fresh: false }, Verdict::Open(_)) => Verdict::Look,
        _ => verdict,
    }
}

/// Decides about a call by its objects alone.
fn without_outage(facts: &Facts<'_>) -> Verdict {
    if let Some(pass) = exemption(facts) {
        return Verdict::Pass(pass);
    }
    if facts.row.act == CallerAct::Pass {
        return Verdict::Pass(Pass::Row);
    }
    let counts = counts(facts);
    if let Some(active) = facts.active {
        return match progress_of(facts, active) {
            Progress::Done if !counts => Verdict::Pass(Pass::RespondersDone),
            Progress::Done if active.status.as_ref().is_some_and(needs_none) => {
                Verdict::Pass(Pass::Uncounted)
            }
            Progress::Done if patience::is_over(facts, active) => Verdict::Pass(Pass::BlockedTooLong),
            Progress::Asking | Progress::Done => ask_or_wait(facts, active),
        };
    }
    match successor::meaning(facts) {
        Some(Meaning::Earlier(gone)) => return Verdict::Wait(gone),
        Some(Meaning::Unclear) => return Verdict::Look,
        None => {}
    }
    if facts.row.on_refusal != RefusalPolicy::Override
        && let Some(refused) = progress::refused(facts)
    {
        return Verdict::Wait(refused);
    }
    // The question to another member stands, also when its registration is gone.
    if facts.registered || facts.namespace.asks_all || asked_mate(facts).is_some() {
        return Verdict::Ask { entry: Box::new(entry(facts)), expired_in: None };
    }
    if counts {
        Verdict::Count { entry: Box::new(entry(facts)), expired_in: None }
    } else {
        Verdict::Pass(Pass::Unregistered)
    }
}

/// Returns true when the call is a deletion that counts against budgets.
fn counts(facts: &Facts<'_>) -> bool {
    facts.namespace.counts && facts.row.count_deletions && facts.call.operation == Operation::Delete
}

/// Returns the progress of an Evacuation, and that of the pod's PodGroup, as far as the call concerns it.
fn progress_of(facts: &Facts<'_>, active: &Evacuation) -> Progress {
    if group::is_held(facts, active) { Progress::Asking } else { Progress::of(active) }
}

/// Returns true when the verdict makes a deletion wait only because it counts: every responder is done. It
/// passes if it is surplus, which a read of the pod's owner tells.
pub(crate) fn waits_to_be_counted(facts: &Facts<'_>, verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Ask { .. } | Verdict::Wait(_))
        && counts(facts)
        && facts.active.is_some_and(|active| progress_of(facts, active) == Progress::Done)
}

/// Joins the Evacuation, or waits if the caller's entry is fresh.
fn ask_or_wait(facts: &Facts<'_>, active: &Evacuation) -> Verdict {
    let entry = entry(facts);
    let written = active.spec.requesters.iter().find(|known| known.key() == entry.key());
    let Some(written) = written else {
        return Verdict::Ask { entry: Box::new(entry), expired_in: None };
    };
    let expired_in = expired_in(facts, active);
    let is_renewed = written.at_deadline == Some(DeadlineAction::GiveUp) && is_stale(facts, written);
    if expired_in.is_some() || is_renewed {
        return Verdict::Ask { entry: Box::new(entry), expired_in };
    }
    Verdict::Wait(Reply::waiting(facts.call, facts.row, active, facts.now))
}

/// Returns the name of an Evacuation in which the caller's entry has expired, also before the controller has
/// recorded that: the caller stopped trying.
fn expired_in(facts: &Facts<'_>, active: &Evacuation) -> Option<String> {
    let key = RequesterKey { owner: &facts.call.user.name, name: &facts.row.entry_name() };
    let own = active.spec.requesters.iter().find(|entry| entry.key() == key)?;
    let policy = active.status.as_ref().and_then(|status| status.policy.as_ref());
    let is_recorded = || policy.is_some_and(|policy| has_expired(policy, key));
    let has_expired =
        own.at_deadline == Some(DeadlineAction::GiveUp) && (is_reached(facts, own) || is_recorded());
    active.metadata.name.clone().filter(|_| has_expired)
}

/// Returns true when the deadline of an entry was reached, also before the controller has recorded that.
fn is_reached(facts: &Facts<'_>, written: &Requester) -> bool {
    written.deadline.is_some_and(|deadline| deadline.time() <= facts.now)
}

/// Returns true when more than a third of the entry's time has passed. A younger one is not written again.
fn is_stale(facts: &Facts<'_>, written: &Requester) -> bool {
    let left = written.deadline.map(|deadline| deadline.time() - facts.now);
    let fresh = chrono::TimeDelta::seconds(i64::from(facts.row.patience_seconds) * 2 / 3);
    left.is_none_or(|left| left < fresh)
}

#[cfg(test)]
mod tests;
