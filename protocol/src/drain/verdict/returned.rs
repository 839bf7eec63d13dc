//! Pods whose owner puts them on the node again and again.

use chrono::{DateTime, Utc};
use evacuation_api::{CordonPolicy, DrainBlockerReason};

use super::{DrainedPod, Hold, PodCount, PodJudgement, command, text};
use crate::pod::{LivePod, PodPhase, tolerates_cordon};

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
    let came = format!("{pods} came to the node {times} since the drain began");
    let object = owner.unwrap_or_else(|| pod.object());
    let act = if LivePod::of(pod.pod).phase == PodPhase::Terminal { "deleted" } else { "asked" };
    let at = text::time(until);
    if rounds < ROUNDS {
        let way_out = format!("nothing is needed; the pod is {act} at {at}");
        let hold = Hold::new(DrainBlockerReason::ComesBack, object, since, came, way_out);
        return PodJudgement::held(PodCount::Waiting, pod, hold.changing_at(Some(until)));
    }
    let (why, change) = reason(pod);
    let cause = format!("{came}: {why}");
    let way_out = format!(
        "{change}; or let the drain leave pods alone that come after it began: {}; until then the pod is \
         {act} at {at}",
        command::change_rules(pod, "--skip-late-pods")
    );
    let hold = Hold::new(DrainBlockerReason::ComesBack, object, since, cause, way_out).stuck();
    PodJudgement::held(PodCount::Waiting, pod, hold.changing_at(Some(until)))
}

/// Returns why the pods come to the node again, and the change that ends it.
fn reason(pod: &DrainedPod<'_>) -> (&'static str, String) {
    let change = "change the owner, so that its pods go elsewhere".to_owned();
    match pod.cordon {
        _ if tolerates_cordon(pod.pod) => ("they tolerate the cordon (spec.tolerations)", change),
        CordonPolicy::Never => {
            let cordon = format!("cordon the node: kubectl cordon {}", pod.node);
            ("the drain does not cordon the node (cordon: Never)", cordon)
        }
        CordonPolicy::AfterAnswers => ("the drain cordons the node last (cordon: AfterAnswers)", change),
        CordonPolicy::BeforeAsking => {
            ("the owner, or a scheduler of its own, names the node (spec.nodeName)", change)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::fixtures, CordonPolicy, DrainedPod, Returned};
    use crate::{
        drain::verdict::{Standing, judge},
        project_pod,
        testing::at,
    };

    #[test]
    fn the_one_cause_for_which_pods_come_back_is_named_after_three_rounds() {
        use CordonPolicy::{AfterAnswers, BeforeAsking, Never};
        let all = json!([{"operator": "Exists"}]);
        let other = json!([{"key": "acme.io/x", "operator": "Exists"}]);
        let tolerates = "they tolerate the cordon (spec.tolerations); what helps: change the owner";
        let named =
            "the owner, or a scheduler of its own, names the node (spec.nodeName); what helps: change";
        let never = "the drain does not cordon the node (cordon: Never); what helps: cordon the node: \
                     kubectl cordon n; or let";
        let last = "the drain cordons the node last (cordon: AfterAnswers); what helps: change the owner";
        for (cordon, tolerations, expected) in [
            (BeforeAsking, &all, tolerates),
            (BeforeAsking, &other, named),
            (AfterAnswers, &all, tolerates),
            (AfterAnswers, &other, last),
            (Never, &all, tolerates),
            (Never, &other, never),
        ] {
            let mut pod = fixtures::pod(json!({"spec": {"containers": [], "tolerations": tolerations}}));
            for kept in ["all", "the projection"] {
                let said = |rounds| {
                    let returned = Returned { rounds, since: at(0), until: at(60), shared: false };
                    let seen = DrainedPod { cordon, ..fixtures::drained(&pod, Standing::Returned(returned)) };
                    judge(&seen, at(1)).blocker.unwrap().message
                };
                let begins = "pods of StatefulSet/db came to the node 3 times since the drain began: ";
                assert!(
                    said(3).starts_with(&format!("{begins}{expected}")),
                    "{kept} of {cordon:?}: {}",
                    said(3)
                );
                assert!(said(2).contains("since the drain began; what helps: nothing"), "{}", said(2));
                project_pod(&mut pod);
            }
        }
    }
}
