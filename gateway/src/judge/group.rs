//! The other pods of a PodGroup whose pods can only be disrupted together.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, RefusalPolicy, from_condition_time};
use evacuation_protocol::{
    GroupPod, Hold, Opening, Outage, Recorded, disrupts, hold_in_outage, holding, members_beside, recorded,
};
use k8s_openapi::api::core::v1::Pod;

use super::{
    Facts,
    progress::{self, Progress},
};

/// Another pod of the group, with its Evacuations.
#[derive(Clone, Debug)]
pub(crate) struct Mate {
    pub(crate) pod: Arc<Pod>,
    /// The Evacuation of this very pod that has not ended.
    pub(crate) active: Option<Arc<Evacuation>>,
    /// The Evacuation of this very pod that ended last.
    pub(crate) last: Option<Arc<Evacuation>>,
}

/// Returns true when a member is not done with what the Evacuation of the called pod asks of all, the call
/// concerns all, and no deadline acts.
pub(super) fn is_held(facts: &Facts<'_>, active: &Evacuation) -> bool {
    if acts_alone(facts, active) {
        return false;
    }
    let pods: Vec<_> = concerned(facts)
        .iter()
        .map(|mate| GroupPod {
            pod: &mate.pod,
            evacuations: mate.active.iter().chain(&mate.last).map(AsRef::as_ref).collect(),
        })
        .collect();
    holding(&members_beside(active, &pods)).is_some()
}

/// Returns true when a deadline was reached, which acts whatever the pod's PodGroup does.
pub(super) fn acts_alone(facts: &Facts<'_>, active: &Evacuation) -> bool {
    recorded(active, facts.now) == Recorded::Forced
}

/// Returns the members whom the call concerns: none for the controller that owns the pod.
pub(super) fn concerned<'a>(facts: &Facts<'a>) -> &'a [Mate] {
    if disrupts(&facts.row.entry_name()) { facts.group } else { &[] }
}

/// Returns the Evacuation of a member whose responders are not done: one is asked, or its answer lets no
/// member go.
pub(crate) fn asked_mate<'a>(facts: &Facts<'a>) -> Option<&'a Arc<Evacuation>> {
    let mut asked = concerned(facts).iter().filter_map(|mate| mate.active.as_ref());
    asked.find(|active| Progress::of(active) == Progress::Asking)
}

/// Returns the Evacuation of a member whose app's answer holds in an outage, and until when.
pub(super) fn held_in_outage<'a>(
    facts: &Facts<'a>,
    outage: Outage,
) -> Option<(&'a Evacuation, DateTime<Utc>)> {
    records(facts).find_map(|(evacuation, record)| match worth(facts, outage, record) {
        Hold::Until(until) => Some((evacuation, until)),
        Hold::Waits | Hold::Done | Hold::Opens(_) => None,
    })
}

/// Returns true when the answer of a member held for as long as an outage can make it hold.
pub(super) fn held_to_the_bound(facts: &Facts<'_>, outage: Outage) -> bool {
    records(facts).any(|(_, record)| worth(facts, outage, record) == Hold::Opens(Opening::HoldEnded))
}

/// Returns what the Evacuations of the members record.
fn records<'a>(facts: &Facts<'a>) -> impl Iterator<Item = (&'a Evacuation, Recorded)> {
    concerned(facts).iter().flat_map(move |mate| {
        let asked = mate.active.as_deref().map(|active| (active, recorded(active, facts.now)));
        asked.into_iter().chain(refusal(facts, mate))
    })
}

/// Returns the refusal that ended the Evacuation of a member, while nobody could record that for the called
/// pod. None where a requester overrides it.
fn refusal<'a>(facts: &Facts<'a>, mate: &'a Mate) -> Option<(&'a Evacuation, Recorded)> {
    let policy = facts.active?.status.as_ref().and_then(|status| status.policy.as_ref());
    let hardest = policy.map(|policy| policy.on_refusal).max(Some(facts.row.on_refusal));
    let last = progress::ended(mate).filter(|_| hardest != Some(RefusalPolicy::Override))?;
    let (_, until) = progress::fresh_refusal(facts, last)?;
    Some((last, Recorded::Answer { until: Some(until) }))
}

/// Returns true when a member can still answer in an outage, or be asked.
pub(super) fn waits_in_outage(facts: &Facts<'_>, active: &Evacuation, outage: Outage) -> bool {
    let created = active.metadata.creation_timestamp.as_ref().map(from_condition_time);
    let unasked = Recorded::Unanswered { since: created.unwrap_or(DateTime::<Utc>::MIN_UTC) };
    concerned(facts).iter().any(|mate| {
        let record = mate.active.as_deref().map_or(unasked, |asked| recorded(asked, facts.now));
        worth(facts, outage, record) == Hold::Waits
    })
}

fn worth(facts: &Facts<'_>, outage: Outage, record: Recorded) -> Hold {
    hold_in_outage(record, outage, facts.longest_hold, facts.now)
}
