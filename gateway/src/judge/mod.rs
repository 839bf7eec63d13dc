//! The decision about one call: a pure function of the call and of the objects that concern it.

mod entry;
mod exemption;
mod progress;
mod reply;

use chrono::{DateTime, Utc};
use evacuation_api::{DeadlineAction, Evacuation, RefusalPolicy, Requester};
use evacuation_protocol::has_expired;
use k8s_openapi::api::core::v1::Pod;

use self::{entry::entry, exemption::exemption, progress::Progress};
pub(crate) use self::{
    exemption::{Trusted, is_forced},
    reply::Reply,
};
use crate::{
    call::{Call, Operation},
    config::{Row, RowAct},
    namespace::NamespaceFacts,
};

/// The call, and the objects that concern it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) call: &'a Call,
    pub(crate) pod: &'a Pod,
    /// True when responders are registered for the pod.
    pub(crate) registered: bool,
    pub(crate) namespace: NamespaceFacts,
    /// The Evacuation of this very pod that has not ended.
    pub(crate) active: Option<&'a Evacuation>,
    /// The Evacuation of this very pod that ended last.
    pub(crate) last: Option<&'a Evacuation>,
    /// The Evacuation that ended last of an earlier pod of the same name.
    pub(crate) predecessor: Option<&'a Evacuation>,
    pub(crate) row: &'a Row,
    pub(crate) trusted: &'a Trusted,
    pub(crate) now: DateTime<Utc>,
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
}

impl Pass {
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
    /// The deletion is to count against budgets. The entry is to be written if a budget holds it back.
    Count(Box<Requester>),
}

/// Decides about a call.
pub(crate) fn judge(facts: &Facts<'_>) -> Verdict {
    if let Some(pass) = exemption(facts) {
        return Verdict::Pass(pass);
    }
    if facts.row.act == RowAct::Pass {
        return Verdict::Pass(Pass::Row);
    }
    if let Some(gone) = progress::replaced(facts) {
        return Verdict::Wait(gone);
    }
    let counts =
        facts.namespace.counts && facts.row.count_deletions && facts.call.operation == Operation::Delete;
    if let Some(active) = facts.active {
        return match Progress::of(active, facts.now) {
            Progress::Asking => ask_or_wait(facts, active),
            Progress::Done { .. } if !counts => Verdict::Pass(Pass::RespondersDone),
            Progress::Done { blocked_for } => {
                let limit = i64::from(facts.row.blocked_patience_seconds);
                if blocked_for.is_some_and(|time| time.num_seconds() >= limit) {
                    return Verdict::Pass(Pass::BlockedTooLong);
                }
                ask_or_wait(facts, active)
            }
        };
    }
    if facts.row.on_refusal != RefusalPolicy::Override
        && let Some(refused) = progress::refused(facts)
    {
        return Verdict::Wait(refused);
    }
    if facts.registered || facts.namespace.asks_all {
        return Verdict::Ask { entry: Box::new(entry(facts)), expired_in: None };
    }
    if counts { Verdict::Count(Box::new(entry(facts))) } else { Verdict::Pass(Pass::Unregistered) }
}

/// Joins the Evacuation, or waits if the caller's entry is fresh.
fn ask_or_wait(facts: &Facts<'_>, active: &Evacuation) -> Verdict {
    let entry = entry(facts);
    let written = active.spec.requesters.iter().find(|known| known.key() == entry.key());
    let Some(written) = written else {
        return Verdict::Ask { entry: Box::new(entry), expired_in: None };
    };
    let policy = active.status.as_ref().and_then(|status| status.policy.as_ref());
    let reached = written.deadline.is_some_and(|deadline| deadline.time() <= facts.now);
    if written.at_deadline == Some(DeadlineAction::GiveUp) {
        if reached || policy.is_some_and(|policy| has_expired(policy, written.key())) {
            let expired_in = active.metadata.name.clone();
            return Verdict::Ask { entry: Box::new(entry), expired_in };
        }
        if is_stale(facts, written) {
            return Verdict::Ask { entry: Box::new(entry), expired_in: None };
        }
    }
    Verdict::Wait(Reply::waiting(facts.call, facts.row, active))
}

/// Returns true when more than a third of the entry's time has passed. A younger one is not written again.
fn is_stale(facts: &Facts<'_>, written: &Requester) -> bool {
    let left = written.deadline.map(|deadline| deadline.time() - facts.now);
    let fresh = chrono::TimeDelta::seconds(i64::from(facts.row.patience_seconds) * 2 / 3);
    left.is_none_or(|left| left < fresh)
}

#[cfg(test)]
mod tests;
