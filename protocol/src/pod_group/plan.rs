//! The questions to the other members of a PodGroup.

use std::cmp::Reverse;

use chrono::{DateTime, Utc};
use evacuation_api::{
    DeadlineAction, Evacuation, EvacuationStatus, OwnerGroups, POD_GROUP_REQUESTER, RefusalPolicy, Requester,
};
use k8s_openapi::api::core::v1::Pod;

use super::{
    disrupts,
    member::{
        GroupPod, MemberState, active, created, is_concerned, is_done, is_too_large, other_members, state,
    },
};
use crate::{
    policy::{forced, has_expired, rests},
    status::is_finished,
};

/// One act for a PodGroup whose pods are disrupted together.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupAct<'a> {
    /// Create an Evacuation of the pod with that entry, whose owner has those groups.
    Ask(&'a Pod, Box<Requester>, OwnerGroups),
    /// Put that entry in place of the group's entries of an active Evacuation.
    Join(&'a Evacuation, Box<Requester>, OwnerGroups),
    /// Remove the group's entries from an active Evacuation.
    Withdraw(&'a Evacuation),
}

/// The request on whose behalf the other members are asked.
struct Source<'a> {
    evacuation: &'a Evacuation,
    entry: &'a Requester,
    status: &'a EvacuationStatus,
    since: DateTime<Utc>,
}

/// Plans the questions to the members of a group.
///
/// Every member that nobody else asks gets an entry of the hardest request for any of them, in the name of
/// its owner. `is_rejected` names the owners who may not ask a pod, for which the next request then counts.
/// Without a request the entries are taken back, unless every member is done: then the pods are on their way,
/// and some can be gone. In a group that is too large all entries are taken back.
pub fn plan_group<'a>(pods: &[GroupPod<'a>], is_rejected: impl Fn(&Pod, &str) -> bool) -> Vec<GroupAct<'a>> {
    if is_too_large(pods) {
        return part_group(pods.iter().flat_map(|member| member.evacuations.iter().copied()));
    }
    let mut sources: Vec<_> = pods.iter().flat_map(sources).collect();
    sources.sort_by_key(|found| (Reverse(policy(found.entry)), found.since));
    let act = |member: &GroupPod<'a>| {
        if sources.is_empty() {
            return withdrawn(member, pods);
        }
        match sources.iter().find(|found| !is_rejected(member.pod, &found.entry.owner)) {
            Some(hardest) => asked(member, hardest),
            None => outlived(member, &sources),
        }
    };
    pods.iter().filter_map(act).collect()
}

/// Plans the end of the entries in a group whose pods do not move together any longer: it is too large, is
/// gone, or another one has its name. A pod whose responders are done is on its way, and keeps its entry.
pub fn part_group<'a>(evacuations: impl IntoIterator<Item = &'a Evacuation>) -> Vec<GroupAct<'a>> {
    let asked = evacuations.into_iter().filter(|evacuation| group_entries(evacuation).next().is_some());
    let open = asked.filter(|evacuation| evacuation.status.as_ref().is_some_and(is_open));
    open.map(GroupAct::Withdraw).collect()
}

/// Returns the act by which a member is asked on behalf of a request. None for one that is asked already.
fn asked<'a>(member: &GroupPod<'a>, source: &Source<'_>) -> Option<GroupAct<'a>> {
    let asks_again = policy(source.entry) != RefusalPolicy::GiveUp;
    let progress = state(member, source.since);
    let due = match progress {
        MemberState::Unasked => true,
        MemberState::Refused(_) => asks_again,
        MemberState::Asking | MemberState::Refusing(_) | MemberState::Done => false,
    };
    let entry = entry(source);
    let groups = || groups(source, &entry.owner);
    if let Some((evacuation, status)) = active(member) {
        let known: Vec<_> = group_entries(evacuation).collect();
        if std::ptr::eq(evacuation, source.evacuation) {
            return (!known.is_empty()).then_some(GroupAct::Withdraw(evacuation));
        }
        // The refusal of an app that others ask more softly would hold a harder request for ever.
        let is_softer = status.policy.as_ref().is_some_and(|own| own.on_refusal < policy(source.entry));
        let hardens = is_softer && progress != MemberState::Done;
        let joins = if known.is_empty() { due || hardens } else { known != [&entry] };
        return joins.then(|| GroupAct::Join(evacuation, Box::new(entry.clone()), groups()));
    }
    let asks = due && is_concerned(member.pod, source.since);
    asks.then(|| GroupAct::Ask(member.pod, Box::new(entry.clone()), groups()))
}

/// Returns the act by which a member is left alone that nobody of those who ask may ask, and that was asked
/// in the name of another.
fn outlived<'a>(member: &GroupPod<'a>, sources: &[Source<'_>]) -> Option<GroupAct<'a>> {
    let (evacuation, status) = active(member)?;
    let asks = |owner: &str| sources.iter().any(|found| found.entry.owner == owner);
    let mut known = group_entries(evacuation);
    (known.any(|entry| !asks(&entry.owner)) && is_open(status)).then_some(GroupAct::Withdraw(evacuation))
}

/// Returns the act by which a member is left alone, when nobody asks any longer and not all are done.
fn withdrawn<'a>(member: &GroupPod<'a>, pods: &[GroupPod<'_>]) -> Option<GroupAct<'a>> {
    let (evacuation, status) = active(member)?;
    group_entries(evacuation).next()?;
    let leaves = status.eviction.as_ref().is_some_and(|eviction| eviction.in_flight || eviction.accepted);
    let open = is_open(status)
        || other_members(evacuation, pods).iter().any(|other| other.state != MemberState::Done);
    (open && !leaves).then_some(GroupAct::Withdraw(evacuation))
}

/// Returns true when a responder is not done and no deadline acts.
fn is_open(status: &EvacuationStatus) -> bool {
    let acts = status.policy.as_ref().is_some_and(|policy| forced(policy).is_some());
    !is_finished(status) && !is_done(status) && !acts
}

/// Returns the requests for a member, but none that sleeps or has expired.
fn sources<'a>(member: &GroupPod<'a>) -> Vec<Source<'a>> {
    let Some((evacuation, status)) = active(member) else { return Vec::new() };
    let all = &evacuation.spec.requesters;
    let Some(times) = status.policy.as_ref().filter(|times| !rests(all, status, times)) else {
        return Vec::new();
    };
    let since = created(evacuation.metadata.creation_timestamp.as_ref());
    all.iter()
        .filter(|entry| entry.name != POD_GROUP_REQUESTER && disrupts(&entry.name))
        .filter(|entry| !has_expired(times, entry.key()))
        .map(|entry| Source { evacuation, entry, status, since })
        .collect()
}

/// Returns the entry that a request for one member puts into the Evacuations of the others.
///
/// A deadline that gives up is left out: the entries leave with the request.
fn entry(source: &Source<'_>) -> Requester {
    let Source { evacuation, entry, .. } = source;
    let acts = entry.at_deadline.is_some_and(|action| action != DeadlineAction::GiveUp);
    Requester {
        owner: entry.owner.clone(),
        reason: entry.reason.clone(),
        message: Some(format!("the pods of its PodGroup move together, and pod {} is asked", {
            &evacuation.spec.target.pod.name
        })),
        on_refusal: Some(policy(entry)),
        deadline: entry.deadline.filter(|_| acts),
        at_deadline: entry.at_deadline.filter(|_| acts),
        ..Requester::named(POD_GROUP_REQUESTER)
    }
}

/// Returns the groups of the owner of a request, as the server recorded them. Of an entry that another wrote,
/// those that the writer declared count.
fn groups(source: &Source<'_>, owner: &str) -> OwnerGroups {
    let recorded = source.status.requesters.iter().find(|known| known.key() == source.entry.key());
    let own = recorded.map(|known| if known.user == owner { &known.groups } else { &known.owner_groups });
    OwnerGroups::new(owner, own.map(Vec::as_slice).unwrap_or_default())
}

fn policy(entry: &Requester) -> RefusalPolicy {
    entry.on_refusal.unwrap_or_default()
}

fn group_entries(evacuation: &Evacuation) -> impl Iterator<Item = &Requester> {
    evacuation.spec.requesters.iter().filter(|entry| entry.name == POD_GROUP_REQUESTER)
}

#[cfg(test)]
mod tests;
