//! The state of the other members of a PodGroup, as far as it concerns an Evacuation of one.

use chrono::{DateTime, Utc};
use evacuation_api::{
    Answer, BlockedReason, ConditionType, Evacuation, EvacuationStatus, FailedReason, ResponderState,
    from_condition_time,
};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Time};

use super::{MAX_GROUP_MEMBERS, can_be_disrupted, disrupts};
use crate::{policy::rests, status::is_finished};

/// A pod of a group, with its Evacuations.
#[derive(Clone, Debug)]
pub struct GroupPod<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The Evacuations of this pod, by its UID; finished ones too.
    pub evacuations: Vec<&'a Evacuation>,
}

/// Another member of the target's group, which is to move together with the target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Name of the pod.
    pub pod: String,
    /// Progress of the pod.
    pub state: MemberState,
}

/// Progress of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemberState {
    /// No Evacuation asks it.
    Unasked,
    /// A responder is asked, or will be.
    Asking,
    /// A responder refuses, and the request waits. Holds its words.
    Refusing(String),
    /// Every responder is done.
    Done,
    /// A refusal ended its Evacuation. Holds the words of the end.
    Refused(String),
}

/// Returns the members that are to move together with the target of an Evacuation, as [`members_beside`]
/// does. None when nobody but the controller that owns the target wants it gone.
pub fn other_members(evacuation: &Evacuation, pods: &[GroupPod<'_>]) -> Vec<Member> {
    let disrupted = evacuation.spec.requesters.iter().any(|entry| disrupts(&entry.name));
    if disrupted { members_beside(evacuation, pods) } else { Vec::new() }
}

/// Returns the members that move together with the target when a call disrupts it, whether or not the caller
/// has an entry in the Evacuation yet.
///
/// Those are the other pods of the group that run on a node and are older than the Evacuation. A younger
/// one replaces a member that has moved. None in a group that is too large.
pub fn members_beside(evacuation: &Evacuation, pods: &[GroupPod<'_>]) -> Vec<Member> {
    if is_too_large(pods) {
        return Vec::new();
    }
    let target = evacuation.spec.target.pod.uid.as_deref();
    let since = created(evacuation.metadata.creation_timestamp.as_ref());
    let others = pods.iter().filter(|other| other.pod.metadata.uid.as_deref() != target);
    let there = others.filter(|other| is_concerned(other.pod, since));
    let member = |other: &GroupPod<'_>| Member {
        pod: other.pod.metadata.name.clone().unwrap_or_default(),
        state: state(other, since),
    };
    there.map(member).collect()
}

/// Returns the member that holds the target back: one that refused, before others.
pub fn holding(members: &[Member]) -> Option<&Member> {
    let refused = members.iter().find(|member| matches!(member.state, MemberState::Refused(_)));
    let refusing = || members.iter().find(|member| matches!(member.state, MemberState::Refusing(_)));
    refused.or_else(refusing).or_else(|| members.iter().find(|member| member.state != MemberState::Done))
}

/// Returns true for a pod that was there at that time, and stays unless it is asked to move.
pub(super) fn is_concerned(pod: &Pod, since: DateTime<Utc>) -> bool {
    can_be_disrupted(pod) && created(pod.metadata.creation_timestamp.as_ref()) <= since
}

/// Returns true for a group whose pods move one by one.
pub(super) fn is_too_large(pods: &[GroupPod<'_>]) -> bool {
    pods.iter().filter(|member| can_be_disrupted(member.pod)).count() > MAX_GROUP_MEMBERS
}

/// Returns how far a pod is with what was asked since that time.
pub(super) fn state(member: &GroupPod<'_>, since: DateTime<Utc>) -> MemberState {
    if let Some((evacuation, status)) = active(member) {
        return match status.policy.as_ref() {
            _ if is_done(status) => MemberState::Done,
            Some(policy) if rests(&evacuation.spec.requesters, status, policy) => MemberState::Unasked,
            _ => refusing(status).map_or(MemberState::Asking, MemberState::Refusing),
        };
    }
    let ended = member.evacuations.iter().filter_map(|evacuation| {
        let status = evacuation.status.as_ref()?;
        let time = status.finish_time?.0;
        (since <= time).then_some((time, status))
    });
    let Some((_, last)) = ended.max_by_key(|(time, _)| *time) else { return MemberState::Unasked };
    if last.is_true(ConditionType::Evacuated) {
        return MemberState::Done;
    }
    match last.true_condition(ConditionType::Failed) {
        Some(failed)
            if matches!(last.reason(), Some(FailedReason::Refused | FailedReason::PodGroupRefused)) =>
        {
            MemberState::Refused(failed.message.clone())
        }
        _ => MemberState::Unasked,
    }
}

/// Returns the Evacuation of a member that has not ended.
pub(super) fn active<'a>(member: &GroupPod<'a>) -> Option<(&'a Evacuation, &'a EvacuationStatus)> {
    let mut all = member.evacuations.iter().copied().filter_map(|e| Some((e, e.status.as_ref()?)));
    all.find(|(_, status)| !is_finished(status))
}

/// Returns the words of a refusal for which a request waits.
fn refusing(status: &EvacuationStatus) -> Option<String> {
    let blocked = status.true_condition(ConditionType::Blocked)?;
    (status.reason() == Some(BlockedReason::Refused)).then(|| blocked.message.clone())
}

/// Returns true when every responder is done, or the last one has accepted.
pub(super) fn is_done(status: &EvacuationStatus) -> bool {
    let accepted = |state, answer| state == ResponderState::Active && answer == Some(Answer::Accept);
    let evicted = status.eviction.as_ref().is_some_and(|eviction| eviction.in_flight || eviction.accepted);
    let mut responders = status.responders.iter().flatten();
    let all_done = status.responders.is_some()
        && responders
            .all(|responder| responder.state.is_done() || accepted(responder.state, responder.answer));
    evicted || all_done
}

/// Returns the time of a creation. An object without one is older than all others.
pub(super) fn created(time: Option<&Time>) -> DateTime<Utc> {
    time.map_or(DateTime::<Utc>::MIN_UTC, from_condition_time)
}
