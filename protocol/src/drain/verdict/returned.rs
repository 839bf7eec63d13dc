//! Pods whose owner puts them on the node again and again.

use chrono::{DateTime, Utc};
use evacuation_api::DrainBlockerReason;

use super::{DrainedPod, Hold, PodCount, PodJudgement, command, text};
use crate::pod::{LivePod, PodPhase};

/// Rounds after which an owner counts as one whose pods come back for ever.
pub(in crate::drain) const ROUNDS: i32 = 3;

/// The rounds in which pods of an owner, or of several, were asked after they had come to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Number of rounds.
    pub rounds: i32,
    /// The time of the last one.
    pub since: DateTime<Utc>,
    /// The time before which no further one begins.
    pub until: DateTime<Utc>,
    /// True when they had pods of several owners in the namespace.
    pub shared: bool,
}

/// Judges a pod that is neither asked nor deleted before a time, because earlier ones of its owner came back
/// to the node.
pub(super) fn judge(pod: &DrainedPod<'_>, returned: &Returned) -> PodJudgement {
    let Returned { rounds, since, until, shared } = *returned;
    let owner = text::owner(pod.pod);
    let times = if rounds == 1 { "once".to_owned() } else { format!("{rounds} times") };
    let pods = match &owner {
        Some(owner) if shared => format!("pods of {owner} and of other owners in its namespace"),
        Some(owner) => format!("pods of {owner}"),
        None => "pods without a controller".to_owned(),
    };
    let cause = format!(
        "{pods} came to the node {times} since the drain began: they tolerate the cordon, name the node \
         themselves, or the node is not cordoned"
    );
    let object = owner.unwrap_or_else(|| pod.object());
    let act = if LivePod::of(pod.pod).phase == PodPhase::Terminal { "deleted" } else { "asked" };
    let at = text::time(until);
    if rounds < ROUNDS {
        let way_out = format!("nothing is needed; the pod is {act} at {at}");
        let hold = Hold::new(DrainBlockerReason::ComesBack, object, since, cause, way_out);
        return PodJudgement::held(PodCount::Waiting, pod, hold.changing_at(Some(until)));
    }
    let way_out = format!(
        "change the owner, so that its pods go elsewhere; or let the drain leave pods alone that come after it \
         began: {}; until then the pod is {act} at {at}",
        command::change_rules(pod, "--skip-late-pods")
    );
    let hold = Hold::new(DrainBlockerReason::ComesBack, object, since, cause, way_out).stuck();
    PodJudgement::held(PodCount::Waiting, pod, hold.changing_at(Some(until)))
}
