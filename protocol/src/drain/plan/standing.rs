//! The progress of a drain with one pod, from its Evacuations and the drain's record.

use evacuation_api::{ConditionType, Evacuation, LeftAlonePod, Requester};

use super::PodOnNode;
use crate::{drain::verdict::Standing, policy::has_expired, status::is_finished};

/// Returns true while an Evacuation neither has ended nor was deleted.
pub(super) fn is_active(evacuation: &Evacuation) -> bool {
    !evacuation.status.as_ref().is_some_and(is_finished) && evacuation.metadata.deletion_timestamp.is_none()
}

/// Returns true when the API accepted the eviction: no requester can withdraw any more.
pub(super) fn is_accepted(evacuation: &Evacuation) -> bool {
    let eviction = evacuation.status.as_ref().and_then(|status| status.eviction.as_ref());
    eviction.is_some_and(|eviction| eviction.accepted)
}

/// Returns the drain's entry in an Evacuation.
pub(super) fn own<'e>(evacuation: &'e Evacuation, entry: &Requester) -> Option<&'e Requester> {
    evacuation.spec.requesters.iter().find(|requester| requester.key() == entry.key())
}

/// Returns the standing of a pod that may be asked. Each pod is asked once: one that is among `left_alone` is
/// not asked again, also when its Evacuation is gone.
pub(super) fn standing<'a>(
    seen: &PodOnNode<'a>,
    entry: &Requester,
    left_alone: &[LeftAlonePod],
) -> Standing<'a> {
    let with_entry = seen.evacuations.iter().copied().filter(|e| is_active(e) && own(e, entry).is_some());
    if let Some(active) = with_entry.into_iter().next() {
        let expired = active.status.as_ref().and_then(|status| status.policy.as_ref());
        let expired = expired.is_some_and(|policy| has_expired(policy, entry.key()));
        return if expired { Standing::LeftAlone(active) } else { Standing::Asked(active) };
    }
    if seen.pod.metadata.deletion_timestamp.is_some() {
        return Standing::Leaving;
    }
    // The owner, or a holder of the verb override, took the entry back while others ask on.
    let left = |e: &&Evacuation| {
        let recorded = e.status.iter().flat_map(|status| &status.requesters);
        is_active(e) && recorded.into_iter().any(|r| r.key() == entry.key() && r.left_time.is_some())
    };
    if let Some(left) = seen.evacuations.iter().copied().find(left) {
        return Standing::LeftAlone(left);
    }
    let recorded = |e: &&Evacuation| {
        let status = e.status.as_ref();
        let asked = status.is_some_and(|s| s.requesters.iter().any(|r| r.key() == entry.key()));
        asked && !is_active(e) && status.is_some_and(|status| status.is_true(ConditionType::Failed))
    };
    if let Some(ended) = seen.evacuations.iter().copied().find(recorded) {
        return Standing::LeftAlone(ended);
    }
    let before = left_alone.iter().find(|known| Some(&known.uid) == seen.pod.metadata.uid.as_ref());
    match (before, seen.rejected) {
        (Some(record), _) => Standing::LeftAloneBefore(record.clone()),
        (None, Some((message, since))) => Standing::Rejected { message, since },
        (None, None) => Standing::Waiting,
    }
}
