//! The plan of a drain that is not stored: what would become of each pod, and what would hold it back.

use std::{
    collections::BTreeSet,
    fmt::{Debug, Display},
};

use chrono::{DateTime, Utc};
use evacuation_api::{
    CordonOwner, DrainVerdict, DrainedNode, DrainedNodePhase, MAX_PLANNED_PODS, NodeEvacuation,
    NodeEvacuationStatus, PlannedAct, PlannedPod, PlannedReason,
};
use k8s_openapi::api::core::v1::{Node, Pod};

use super::{counts::add_up, nodes, rounds};
use crate::{
    drain::{
        DrainFilters, DrainRefusal, Picked, Standing, Surroundings,
        labels::PodSelector,
        pick,
        verdict::{PodCount, PodJudgement, judge, summarize},
    },
    status::truncated,
};

/// The part of the cluster that the plan of a new drain depends on.
#[derive(Clone, Debug, Default)]
pub struct DrainSight {
    /// The nodes that the drain names, or that its selector picks.
    pub nodes: Vec<Node>,
    /// The pods on these nodes.
    pub pods: Vec<Pod>,
    /// The budgets of the namespaces of `pods`, and the unready pods of those that have budgets.
    pub surroundings: Surroundings,
    /// DaemonSets that `pods` name as their controller and that do not exist, as `NAMESPACE/NAME`.
    pub missing_daemon_sets: BTreeSet<String>,
}

/// Returns the status of a drain that begins now, with the plan for the pods of all its nodes.
///
/// Limits, phases and windows change when a pod is asked, not what becomes of it, and the plan does not tell
/// of them. A pod that something would hold back counts as blocked.
pub fn preview(drain: &NodeEvacuation, sight: &DrainSight, now: DateTime<Utc>) -> NodeEvacuationStatus {
    let mut status = drain.status.clone().unwrap_or_default();
    let live: Vec<&Node> = sight.nodes.iter().collect();
    nodes::take_in(&mut status, &drain.spec.nodes, &live);
    let filters = DrainFilters::of(&drain.spec, &sight.missing_daemon_sets);
    let selector = PodSelector::of(drain.spec.pods.selector.as_ref());
    let mut judgements = Vec::new();
    let mut planned = Vec::new();
    let mut asked = Vec::new();
    let mut held = 0_usize;
    for node in status.nodes.iter_mut().filter(|node| !node.phase.is_final()) {
        let live = live.iter().copied().find(|live| nodes::is(live, node));
        let is_cordoned = live.and_then(|live| live.spec.as_ref()?.unschedulable) == Some(true);
        node.cordoned = if is_cordoned { CordonOwner::Others } else { CordonOwner::No };
        let pods = sight.pods.iter().filter(|pod| is_on(pod, node) && selector.picks(pod));
        let mut picked = pick(pods, &filters, now);
        let leaving = take_leaving(&mut picked);
        let mut judged = judge_going(&picked, &leaving, &sight.surroundings, live, now);
        held = held.saturating_add(judged.iter().filter(|judgement| judgement.blocker.is_some()).count());
        judged.extend(judge_refused(&picked, &sight.surroundings, live, now));
        let summary = summarize(&judged, now);
        node.pods = summary.counts;
        node.pods.total = count(judged.len());
        node.verdict =
            if summary.verdict == DrainVerdict::Stuck { DrainVerdict::Stuck } else { DrainVerdict::Waiting };
        judgements.extend(judged);
        planned.extend(plan_of(node, &picked, &leaving));
        asked.extend(picked.evacuate);
    }
    let summary = summarize(&judgements, now);
    let missing = status.nodes.iter().any(|node| node.phase == DrainedNodePhase::Failed);
    let stuck = missing || summary.verdict == DrainVerdict::Stuck;
    status.verdict = Some(if stuck { DrainVerdict::Stuck } else { DrainVerdict::Waiting });
    status.pods = add_up(&status.nodes);
    status.blockers = summary.blockers;
    status.blockers_omitted = summary.blockers_omitted;
    let rounds = rounds::rounds(&sight.surroundings, &asked);
    status.message = Some(truncated(&format!("{}{rounds}", message(&planned, held))));
    nodes::tell_omitted(&mut status);
    status.plan_omitted = count(planned.len().saturating_sub(MAX_PLANNED_PODS));
    status.plan = bounded(planned);
    status
}

/// Returns the pods that are listed. Of too many, those come first by which a node cannot be drained: one
/// refused pod of each node, and then the other refused ones.
fn bounded(mut planned: Vec<PlannedPod>) -> Vec<PlannedPod> {
    if planned.len() > MAX_PLANNED_PODS {
        let mut named = BTreeSet::new();
        planned.sort_by_cached_key(|pod| {
            let is_refused = pod.act == PlannedAct::Refuse;
            (!is_refused || !named.insert(pod.node.clone()), !is_refused)
        });
        planned.truncate(MAX_PLANNED_PODS);
    }
    planned
}

fn is_on(pod: &Pod, node: &DrainedNode) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(&node.name)
}

/// Takes the pods out that terminate already. The drain waits for them: it neither asks nor deletes them.
fn take_leaving<'a>(picked: &mut Picked<'a>) -> Vec<&'a Pod> {
    let terminates = |pod: &mut &Pod| pod.metadata.deletion_timestamp.is_some();
    let asked = picked.evacuate.extract_if(.., terminates);
    asked.chain(picked.completed.extract_if(.., terminates)).collect()
}

/// Judges the pods of a node that would go: those to ask as if their responders were done, and only the
/// eviction was left.
fn judge_going(
    picked: &Picked<'_>,
    leaving: &[&Pod],
    around: &Surroundings,
    node: Option<&Node>,
    now: DateTime<Utc>,
) -> Vec<PodJudgement> {
    let waiting = PodJudgement::of(PodCount::Waiting);
    let asked = picked.evacuate.iter().map(|pod| match around.obstacle(pod, node, now) {
        Some(blocker) => PodJudgement { count: PodCount::Blocked, blocker: Some(blocker), ..waiting.clone() },
        None => waiting.clone(),
    });
    let completed = picked.completed.iter().map(|_| waiting.clone());
    let leaving = leaving.iter().map(|pod| judge(&around.drained(pod, Standing::Leaving, node), now));
    asked.chain(completed).chain(leaving).collect()
}

/// Judges the pods of a node that the rules of the drain refuse.
fn judge_refused(
    picked: &Picked<'_>,
    around: &Surroundings,
    node: Option<&Node>,
    now: DateTime<Utc>,
) -> impl Iterator<Item = PodJudgement> {
    refusals(picked)
        .into_iter()
        .map(move |(pod, reasons)| judge(&around.drained(pod, Standing::Refused(reasons), node), now))
}

/// Returns the refused pods, each once, with all reasons.
fn refusals<'a>(picked: &Picked<'a>) -> Vec<(&'a Pod, Vec<DrainRefusal>)> {
    let mut refused: Vec<(&'a Pod, Vec<DrainRefusal>)> = Vec::new();
    for (pod, why) in &picked.refused {
        match refused.iter_mut().find(|(known, _)| known.metadata.uid == pod.metadata.uid) {
            Some((_, reasons)) => reasons.push(*why),
            None => refused.push((pod, vec![*why])),
        }
    }
    refused
}

fn plan_of(node: &DrainedNode, picked: &Picked<'_>, leaving: &[&Pod]) -> Vec<PlannedPod> {
    let entry = |pod: &Pod, act: PlannedAct, reasons: Vec<PlannedReason>| PlannedPod {
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        node: node.name.clone(),
        pod: format!(
            "{}/{}",
            pod.metadata.namespace.as_deref().unwrap_or_default(),
            pod.metadata.name.as_deref().unwrap_or_default()
        ),
        act,
        reasons,
    };
    let losses = |pod: &Pod| {
        let of_pod = picked.warnings.iter().filter(|(other, _)| other.metadata.uid == pod.metadata.uid);
        of_pod.map(|(_, loss)| reason(loss)).collect()
    };
    let asked = picked.evacuate.iter().map(|pod| entry(pod, PlannedAct::Ask, losses(pod)));
    let completed = picked.completed.iter().map(|pod| entry(pod, PlannedAct::Delete, Vec::new()));
    let leaving = leaving.iter().map(|pod| entry(pod, PlannedAct::Wait, Vec::new()));
    let refused = refusals(picked)
        .into_iter()
        .map(|(pod, reasons)| entry(pod, PlannedAct::Refuse, reasons.iter().map(reason).collect()));
    let skipped = picked.skipped.iter().map(|(pod, why)| entry(pod, PlannedAct::Leave, vec![reason(why)]));
    asked.chain(completed).chain(leaving).chain(refused).chain(skipped).collect()
}

/// Returns a reason: the name of its variant, and its words.
fn reason(why: &(impl Debug + Display)) -> PlannedReason {
    PlannedReason { reason: format!("{why:?}"), message: why.to_string() }
}

/// Returns the plan in one line. `held` is the number of pods that would go and that something holds back.
fn message(planned: &[PlannedPod], held: usize) -> String {
    let number = |act: PlannedAct| planned.iter().filter(|pod| pod.act == act).count();
    let if_any =
        |number: usize, what: &str| if number == 0 { String::new() } else { format!(", {number} {what}") };
    format!(
        "plan: {} asked, {} deleted{}, {held} held back now{}",
        number(PlannedAct::Ask),
        number(PlannedAct::Delete),
        if_any(number(PlannedAct::Wait), "waited for"),
        if_any(number(PlannedAct::Refuse), "refused"),
    )
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
