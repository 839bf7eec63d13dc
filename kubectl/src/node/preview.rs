//! The plan that the server makes of a drain before it begins.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use evacuation_api::{
    CordonOwner, DrainBlocker, DrainedNode, DrainedNodePhase, NodeEvacuation, NodeEvacuationStatus,
    PlannedAct, PlannedPod,
};
use kube::{Api, Client, api::PostParams};

use super::Node;
use crate::{
    moment::{Now, count},
    output::warn,
    plain::plain,
};

/// Maximum number of pods that one warning names.
const NAMED: usize = 3;

/// The plan of a drain: the status in the reply to a dry run.
pub(super) struct Preview {
    status: NodeEvacuationStatus,
    /// Names of the nodes that the command does not drain, because their pods may not be drained.
    without: Vec<String>,
    /// The time of the reply.
    now: Now,
}

impl Node {
    /// Asks the server for the plan. Nothing is stored. If no node matches, says so and returns an empty
    /// plan.
    pub(super) async fn preview(&self, client: &Client) -> anyhow::Result<Preview> {
        let mut drain = self.manifest()?;
        // A drain of that name may exist.
        drain.metadata.name = None;
        drain.metadata.generate_name = Some("plan-".to_owned());
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let api: Api<NodeEvacuation> = Api::all(client.clone());
        let reply = api.create(&params, &drain).await.context("the drain cannot be planned")?;
        let status = reply.status.unwrap_or_default();
        let now = Now::of(self.connection.outages().is_led());
        if status.verdict.is_none() {
            bail!("the server made no plan: it cannot read the nodes and their pods at the moment");
        }
        if let Some(missing) = status.nodes.iter().find(|node| node.phase == DrainedNodePhase::Failed) {
            let why = missing.message.as_deref().unwrap_or_default();
            bail!("node {} cannot be drained: {}", missing.name, now.text(why));
        }
        if let (true, Some(selector)) = (status.nodes.is_empty(), &self.selector) {
            warn(format_args!("no node has the labels {selector:?}"));
        }
        Ok(Preview { status, without: Vec::new(), now })
    }
}

impl Preview {
    /// Returns the plan as that of a command that leaves those nodes out.
    pub(super) fn without(self, nodes: Vec<String>) -> Self {
        Self { without: nodes, ..self }
    }

    /// Returns the names of the nodes that are left out.
    pub(super) fn without_nodes(&self) -> &[String] {
        &self.without
    }

    /// Returns the names of the nodes with a pod that may not be drained; none when there is no other node.
    pub(super) fn left_out(&self) -> Vec<String> {
        let refused: BTreeSet<&str> = self.pods(PlannedAct::Refuse).map(|pod| pod.node.as_str()).collect();
        let (out, others): (Vec<&DrainedNode>, Vec<_>) =
            self.nodes().iter().partition(|node| refused.contains(node.name.as_str()));
        if others.is_empty() { Vec::new() } else { out.iter().map(|node| node.name.clone()).collect() }
    }

    /// Returns the names of the other nodes.
    pub(super) fn others(&self, left_out: &[String]) -> Vec<String> {
        let names = self.nodes().iter().map(|node| node.name.clone());
        names.filter(|name| !left_out.contains(name)).collect()
    }

    /// Returns the nodes.
    pub(super) fn nodes(&self) -> &[DrainedNode] {
        &self.status.nodes
    }

    /// Returns the pods with which the drain would do that.
    pub(super) fn pods(&self, act: PlannedAct) -> impl Iterator<Item = &PlannedPod> {
        self.status.plan.iter().filter(move |pod| pod.act == act)
    }

    /// Returns the pods that would go, each with what the drain would do, as a participle.
    pub(super) fn going(&self) -> impl Iterator<Item = (&PlannedPod, &'static str)> {
        let acts =
            [(PlannedAct::Ask, "asked"), (PlannedAct::Delete, "deleted"), (PlannedAct::Wait, "waited for")];
        acts.into_iter().flat_map(|(act, done)| self.pods(act).map(move |pod| (pod, done)))
    }

    /// Returns every pod of the plan.
    pub(super) fn all_pods(&self) -> &[PlannedPod] {
        &self.status.plan
    }

    /// Returns the number of pods that the plan does not list.
    pub(super) fn omitted(&self) -> i32 {
        self.status.plan_omitted
    }

    /// Returns what would hold pods back now.
    pub(super) fn blockers(&self) -> &[DrainBlocker] {
        &self.status.blockers
    }

    /// Returns the number of pods and nodes that something would hold back, beyond [`Self::blockers`].
    pub(super) fn blockers_omitted(&self) -> usize {
        usize::try_from(self.status.blockers_omitted).unwrap_or_default()
    }

    /// Returns what would hold a pod back now, in words: the object, such as a budget, and the reason.
    pub(super) fn obstacle(&self, pod: &PlannedPod) -> Option<String> {
        let of_pod = self.status.blockers.iter().find(|blocker| blocker.pod.as_ref() == Some(&pod.pod))?;
        let object = of_pod.object.as_ref().filter(|object| !object.starts_with("Evacuation/"));
        let object = object.map(|object| format!(" by {object}")).unwrap_or_default();
        let message = self.now.text(&of_pod.message);
        Some(plain(&format!("would be held back{object}: {}: {message}", of_pod.reason)))
    }

    /// Returns the statement that the plan does not mark every pod that would be held back.
    pub(super) fn unmarked(&self) -> Option<String> {
        let omitted = self.blockers_omitted();
        (omitted > 0).then(|| {
            let marked = count(self.blockers().len(), "pod");
            format!("{} would be held back: only {marked} could be marked", count(omitted, "more pod"))
        })
    }

    /// Returns the plan in one line, for programs.
    pub(super) fn message(&self) -> &str {
        self.status.message.as_deref().unwrap_or_default()
    }

    /// Returns the plan in one line, for people.
    pub(super) fn summary(&self) -> String {
        self.now.text(self.message())
    }

    /// Returns true when a pod keeps the drain from beginning.
    pub(super) fn is_refused(&self) -> bool {
        self.pods(PlannedAct::Refuse).next().is_some()
    }

    /// Prints warnings about pods that are left alone, and about data or pods that are lost.
    pub(super) fn print_warnings(&self) {
        for line in warnings(&self.status) {
            warn(format_args!("warning: {line}"));
        }
    }

    /// Prints the reasons for which the drain must not begin, with the flags that let it continue.
    pub(super) fn print_refusals(&self) {
        for pod in self.pods(PlannedAct::Refuse) {
            for why in &pod.reasons {
                let way_out = flag(&why.reason).map(|flag| format!(" (use {flag})")).unwrap_or_default();
                warn(format_args!("error: {}: {}{way_out}", pod.pod, plain(&why.message)));
            }
        }
    }
}

/// Returns the warnings of a plan. The pods of DaemonSets that are left alone share one.
fn warnings(plan: &NodeEvacuationStatus) -> Vec<String> {
    let mut lines = Vec::new();
    let mut left: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pod in &plan.plan {
        for why in &pod.reasons {
            match pod.act {
                // kubectl drain does not mention mirror pods either.
                PlannedAct::Leave if why.reason == "Mirror" => {}
                PlannedAct::Leave => left.entry(&why.message).or_default().push(&pod.pod),
                PlannedAct::Ask => lines.push(plain(&format!("{}: {}", pod.pod, why.message))),
                PlannedAct::Delete | PlannedAct::Wait | PlannedAct::Refuse => {}
            }
        }
    }
    let left = left.into_iter().map(|(why, pods)| match pods.as_slice() {
        [only] => plain(&format!("{only} is left alone: {why}")),
        _ => plain(&format!("{} are left alone ({why}): {}", count(pods.len(), "pod"), shortened(&pods))),
    });
    lines.splice(0..0, left);
    if plan.plan_omitted > 0 {
        let omitted = usize::try_from(plan.plan_omitted).unwrap_or_default();
        let verb = if omitted == 1 { "is" } else { "are" };
        lines.push(format!("{} {verb} not listed", count(omitted, "more pod")));
    }
    lines
}

/// Returns the first names, and the number of the others.
pub(super) fn shortened(names: &[&str]) -> String {
    let first = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Returns true when no pod is scheduled to the node.
pub(super) fn is_cordoned(node: &DrainedNode) -> bool {
    node.cordoned != CordonOwner::No
}

/// Returns the flag that lets the drain continue.
fn flag(reason: &str) -> Option<&'static str> {
    match reason {
        "DaemonSet" => Some("--ignore-daemonsets"),
        "LocalStorage" => Some("--delete-emptydir-data"),
        "MissingDaemonSet" | "Unmanaged" => Some("--force"),
        _ => None,
    }
}

#[cfg(test)]
impl Preview {
    /// A plan of that status.
    pub(super) fn of(status: serde_json::Value) -> Self {
        let now = Now { time: "2026-11-20T22:05:00Z".parse().unwrap(), led: true };
        Self { status: serde_json::from_value(status).unwrap(), without: Vec::new(), now }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_plan_names_the_budget_that_holds_a_pod_and_counts_the_pods_that_it_does_not_mark() {
        let preview = |omitted: i32, object: Value| {
            let blocker = json!({"node": "a", "pod": "shop/db-0", "reason": "BudgetAllowsNone", "object": object,
                                 "stuck": true, "since": "2026-11-20T22:00:00Z",
                                 "message": "none may go until 2026-11-20T22:06:00Z"});
            let pod = json!({"act": "Ask", "node": "a", "pod": "shop/db-0", "uid": "u", "reasons": []});
            let status = json!({"plan": [pod], "blockers": [blocker], "blockersOmitted": omitted,
                                "message": "it ends at 2026-11-20T23:05:00Z"});
            Preview::of(status)
        };
        for (object, expected) in [
            (
                json!("PodDisruptionBudget/db"),
                "would be held back by PodDisruptionBudget/db: BudgetAllowsNone: none may go until 22:06:00Z (in 60 s)",
            ),
            (
                json!("Evacuation/plan"),
                "would be held back: BudgetAllowsNone: none may go until 22:06:00Z (in 60 s)",
            ),
            (Value::Null, "would be held back: BudgetAllowsNone: none may go until 22:06:00Z (in 60 s)"),
        ] {
            let preview = preview(0, object);
            assert_eq!(preview.obstacle(&preview.all_pods()[0]).as_deref(), Some(expected));
            assert_eq!(preview.summary(), "it ends at 23:05:00Z (in 60 min)");
            assert_eq!(preview.message(), "it ends at 2026-11-20T23:05:00Z");
        }
        for (omitted, expected) in [
            (0, None),
            (1, Some("1 more pod would be held back: only 1 pod could be marked")),
            (10, Some("10 more pods would be held back: only 1 pod could be marked")),
        ] {
            assert_eq!(preview(omitted, Value::Null).unmarked().as_deref(), expected, "{omitted}");
        }
    }

    #[test]
    fn nodes_with_a_refused_pod_are_left_out_when_there_are_others() {
        let preview = |nodes: &[&str], pods: &[(&str, &str)]| {
            let nodes: Vec<_> = nodes.iter().map(|name| json!({"name": name})).collect();
            let pods = pods.iter().map(
                |(node, act)| json!({"act": act, "node": node, "pod": "shop/db", "uid": "u", "reasons": []}),
            );
            let status = json!({"nodes": nodes, "plan": pods.collect::<Vec<_>>()});
            Preview::of(status)
        };
        for (nodes, pods, out, others) in [
            (&["a", "b"][..], &[("a", "Ask"), ("b", "Leave")][..], &[][..], &["a", "b"][..]),
            (&["a", "b", "c"], &[("a", "Ask"), ("b", "Refuse"), ("b", "Ask")], &["b"], &["a", "c"]),
            (&["a"], &[("a", "Refuse")], &[], &["a"]),
            (&["a", "b"], &[("a", "Refuse"), ("b", "Refuse")], &[], &["a", "b"]),
            (&[], &[], &[], &[]),
        ] {
            let preview = preview(nodes, pods);
            let left_out = preview.left_out();
            assert_eq!(left_out, out, "{pods:?}");
            assert_eq!(preview.others(&left_out), others, "{pods:?}");
        }
    }

    #[test]
    fn the_pods_of_daemon_sets_that_are_left_alone_share_one_warning() {
        let pod = |name: &str, act: &str, reason: &str, message: &str| {
            json!({"act": act, "node": "a", "pod": format!("ops/{name}"), "uid": name,
                   "reasons": [{"reason": reason, "message": message}]})
        };
        let agent = |name| pod(name, "Leave", "DaemonSet", "it belongs to a DaemonSet");
        let told = |pods: Value, omitted: i32| {
            let plan = json!({"plan": pods, "planOmitted": omitted});
            warnings(&serde_json::from_value(plan).unwrap())
        };
        assert_eq!(
            told(json!([agent("agent-1")]), 0),
            ["ops/agent-1 is left alone: it belongs to a DaemonSet"]
        );
        let lost = pod("web", "Ask", "LocalStorage", "the data of its emptyDir volumes is lost");
        let mirror = pod("kube", "Leave", "Mirror", "it is a mirror pod");
        let agents = [agent("a"), agent("b"), agent("c"), agent("d"), agent("e"), lost, mirror];
        assert_eq!(
            told(json!(agents), 1),
            [
                "5 pods are left alone (it belongs to a DaemonSet): ops/a, ops/b, ops/c and 2 more",
                "ops/web: the data of its emptyDir volumes is lost",
                "1 more pod is not listed",
            ]
        );
    }
}
