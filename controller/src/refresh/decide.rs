//! Decision about the pods of one namespace, from a snapshot of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use chrono::{DateTime, Utc};
use evacuation_api::Evacuation;
use k8s_openapi::api::core::v1::Pod;

use super::{
    Limits,
    crash_loop::{CrashLoop, Reached, is_crash_looping, new_until, reached, well_since},
    history::{History, ended, owner_uid},
    hold::Hold,
    limits::Recent,
    names::REQUESTER,
    opt_in::{OptIn, Unreadable},
    owner::{Owned, Owner, owner},
    snapshot::Snapshot,
};
use crate::cluster::is_finished;

/// Decision about one namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decision {
    /// Acts to do.
    pub(super) acts: Vec<Act>,
    /// Pods that reached a threshold and are not asked yet, with the reason.
    pub(super) held: Vec<(Arc<Pod>, Hold)>,
    /// Pods that are not refreshed because an annotation cannot be read.
    pub(super) unreadable: Vec<(Arc<Pod>, Unreadable)>,
    /// Time of the next decision if nothing changes before.
    pub(super) wake_at: Option<DateTime<Utc>>,
    /// True if any change of the namespace's pods can matter.
    pub(super) pending: bool,
}

/// One act.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Ask a pod to move.
    Ask(Ask),
    /// Withdraw a request.
    Withdraw {
        /// The Evacuation.
        evacuation: Arc<Evacuation>,
        /// Reason for the log.
        why: &'static str,
    },
    /// Record that an owner's pods are well again.
    Settle {
        /// The last Evacuation of the owner's pods.
        evacuation: Arc<Evacuation>,
        /// Time since which they are.
        since: DateTime<Utc>,
    },
}

/// A pod to ask.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// The pod.
    pub(super) pod: Arc<Pod>,
    /// The container that is in a crash loop.
    pub(super) crash_loop: CrashLoop,
    /// Kind and name of the owner.
    pub(super) owner: String,
    /// The owner's UID.
    pub(super) owner_uid: String,
    /// Number of this attempt since the owner's pods were last well, from 1.
    pub(super) attempt: u32,
}

/// The pods of one owner that reached a threshold.
struct Due<'a> {
    owner: Owner<'a>,
    pods: Vec<(&'a Arc<Pod>, CrashLoop)>,
}

/// Decides about a namespace.
pub(crate) fn decide(snapshot: &Snapshot, limits: &Limits, now: DateTime<Utc>) -> Decision {
    let mut decision = Decision::default();
    decision.withdraw(snapshot, limits, now);
    let due = decision.due(snapshot, now);
    decision.ask(snapshot, &due, limits, now);
    decision.settle(snapshot, limits, now);
    decision.pending |= decision.wake_at.is_some() || !decision.held.is_empty();
    decision
}

impl Decision {
    /// Withdraws the requests for pods that recovered or opted out.
    fn withdraw(&mut self, snapshot: &Snapshot, limits: &Limits, now: DateTime<Utc>) {
        for evacuation in snapshot.evacuations.iter().filter(|e| is_own(e) && !is_finished(e)) {
            self.pending = true;
            let uid = evacuation.spec.target.pod.uid.as_ref();
            let mut pods = snapshot.pods.iter().filter(|pod| is_live(pod));
            let Some(pod) = pods.find(|pod| pod.metadata.uid.as_ref() == uid) else {
                continue;
            };
            let why = match (snapshot.opt_in(pod), well_since(pod)) {
                (OptIn::Refresh(_), None) => continue,
                (OptIn::Refresh(_), Some(since)) if since + limits.recovered_after > now => {
                    self.wake(since + limits.recovered_after);
                    continue;
                }
                (OptIn::Refresh(_), Some(_)) => "the pod recovered",
                (OptIn::LeaveAlone | OptIn::Unreadable(_), _) => "the pod has not opted in",
            };
            self.acts.push(Act::Withdraw { evacuation: Arc::clone(evacuation), why });
        }
    }

    /// Returns the pods that reached a threshold, by owner.
    fn due<'a>(&mut self, snapshot: &'a Snapshot, now: DateTime<Utc>) -> BTreeMap<&'a str, Due<'a>> {
        let mut all: BTreeMap<&str, Due> = BTreeMap::new();
        for pod in snapshot.pods.iter().filter(|pod| is_live(pod)) {
            let thresholds = match snapshot.opt_in(pod) {
                OptIn::Refresh(thresholds) => thresholds,
                OptIn::LeaveAlone => continue,
                // A mistake in a namespace concerns only those of its pods that are in a crash loop.
                OptIn::Unreadable(what) if what.of_namespace && !is_crash_looping(pod) => continue,
                OptIn::Unreadable(what) => {
                    self.unreadable.push((Arc::clone(pod), what));
                    continue;
                }
            };
            let crash_loop = match reached(pod, &thresholds, now) {
                Reached::Now(crash_loop) => crash_loop,
                Reached::At(time) => {
                    self.wake(time);
                    continue;
                }
                Reached::Not => continue,
            };
            match owner(pod, &snapshot.replica_sets) {
                Owned::By(owner) => all
                    .entry(owner.uid)
                    .or_insert_with(|| Due { owner, pods: Vec::new() })
                    .pods
                    .push((pod, crash_loop)),
                Owned::Unseen => self.held.push((Arc::clone(pod), Hold::OwnerUnseen)),
                Owned::Nobody(controller) => {
                    let controller = controller.map(str::to_owned);
                    self.held.push((Arc::clone(pod), Hold::NoOwner { controller }));
                }
            }
        }
        all
    }

    /// Asks one pod of each owner, unless something holds it back.
    fn ask(&mut self, snapshot: &Snapshot, due: &BTreeMap<&str, Due>, limits: &Limits, now: DateTime<Utc>) {
        let mut recent = snapshot.recent.clone();
        let active = snapshot.evacuations.iter().filter(|e| !is_finished(e));
        let asked: BTreeSet<_> = active.map(|e| e.spec.target.pod.uid.as_deref()).collect();
        for Due { owner, pods } in due.values() {
            let history = History::of(snapshot.evacuations.iter().map(Arc::as_ref), owner.uid);
            // A pod that another requester asks is on its way already.
            let waiting = || pods.iter().filter(|(pod, _)| !asked.contains(&pod.metadata.uid.as_deref()));
            let first = waiting().min_by_key(|(pod, _)| {
                (history.asked(pod.metadata.uid.as_deref()), pod.metadata.name.as_deref())
            });
            let Some((pod, crash_loop)) = first else {
                continue;
            };
            if let Some((hold, until)) = hold(snapshot, *owner, &history, &recent, limits, now) {
                if let Some(until) = until {
                    self.wake(until);
                }
                self.held.extend(waiting().map(|(pod, _)| (Arc::clone(pod), hold.clone())));
                continue;
            }
            recent.add(&snapshot.name, now);
            self.acts.push(Act::Ask(Ask {
                pod: Arc::clone(pod),
                crash_loop: crash_loop.clone(),
                owner: format!("{} {}", owner.kind, owner.name),
                owner_uid: owner.uid.to_owned(),
                attempt: history.next_attempt(),
            }));
        }
    }

    /// Records the owners of which all pods are well for so long that the next attempt is a first one.
    fn settle(&mut self, snapshot: &Snapshot, limits: &Limits, now: DateTime<Utc>) {
        let owners: BTreeSet<&str> = snapshot.evacuations.iter().filter_map(|e| owner_uid(e)).collect();
        for uid in owners {
            let of_namespace = || snapshot.evacuations.iter().filter(|e| owner_uid(e) == Some(uid));
            let history = History::of(of_namespace().map(Arc::as_ref), uid);
            let (None, Some(last)) = (history.active(), history.unsettled()) else {
                continue;
            };
            self.pending = true;
            let Some(since) = well_since_all(snapshot, uid).map(|since| since.max(ended(last))) else {
                continue;
            };
            if since + limits.settled_after > now {
                self.wake(since + limits.settled_after);
            } else if let Some(evacuation) = of_namespace().find(|e| e.metadata.uid == last.metadata.uid) {
                let evacuation = Arc::clone(evacuation);
                self.acts.push(Act::Settle { evacuation, since });
            }
        }
    }

    fn wake(&mut self, time: DateTime<Utc>) {
        self.wake_at = Some(self.wake_at.map_or(time, |known| known.min(time)));
    }
}

/// Returns the reason that holds back every pod of an owner, and its end if that is known.
fn hold(
    snapshot: &Snapshot,
    owner: Owner,
    history: &History,
    recent: &Recent,
    limits: &Limits,
    now: DateTime<Utc>,
) -> Option<(Hold, Option<DateTime<Utc>>)> {
    if let Some(active) = history.active() {
        let evacuation = active.metadata.name.clone().unwrap_or_default();
        return Some((Hold::OneAtATime { evacuation }, None));
    }
    if let Some(until) = history.left_alone_until(limits).filter(|until| *until > now) {
        let attempts = history.next_attempt().saturating_sub(1);
        return Some((Hold::Backoff { until, attempts }, Some(until)));
    }
    let new = pods_of(snapshot, owner.uid).find_map(|pod| Some((pod, new_until(pod, now)?)));
    if let Some((pod, until)) = new {
        let pod = pod.metadata.name.clone().unwrap_or_default();
        return Some((Hold::NewPod { pod }, Some(until)));
    }
    limits.hold(recent, &snapshot.name, now).map(|(hold, until)| (hold, Some(until)))
}

/// Returns the time since which every pod of an owner is well. `None` if one is not, if there is none, or if
/// the owner of one is unknown.
fn well_since_all(snapshot: &Snapshot, owner_uid: &str) -> Option<DateTime<Utc>> {
    let mut live = snapshot.pods.iter().filter(|pod| is_live(pod));
    if live.any(|pod| owner(pod, &snapshot.replica_sets) == Owned::Unseen) {
        return None;
    }
    let since: Option<Vec<_>> = pods_of(snapshot, owner_uid).map(well_since).collect();
    since?.into_iter().max()
}

fn pods_of<'a>(snapshot: &'a Snapshot, owner_uid: &str) -> impl Iterator<Item = &'a Pod> {
    let of_owner = move |pod: &&Pod| match owner(pod, &snapshot.replica_sets) {
        Owned::By(owner) => owner.uid == owner_uid,
        Owned::Unseen | Owned::Nobody(_) => false,
    };
    snapshot.pods.iter().map(Arc::as_ref).filter(|pod| is_live(pod)).filter(of_owner)
}

/// Returns true for a pod that neither ended nor is terminating.
fn is_live(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
}

/// Returns true if this requester has an entry in the Evacuation.
fn is_own(evacuation: &Evacuation) -> bool {
    owner_uid(evacuation).is_some() && evacuation.spec.requesters.iter().any(|entry| entry.name == REQUESTER)
}

#[cfg(test)]
mod tests;
