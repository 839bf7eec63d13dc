//! The plan that the server makes of a drain before it begins.

use anyhow::{Context, bail};
use evacuation_api::{
    CordonOwner, DrainedNode, DrainedNodePhase, NodeEvacuation, NodeEvacuationStatus, PlannedAct, PlannedPod,
};
use kube::{Api, Client, api::PostParams};

use super::Node;
use crate::plain::plain;

/// The plan of a drain: the status in the reply to a dry run.
pub(super) struct Preview(NodeEvacuationStatus);

impl Node {
    /// Asks the server for the plan. Nothing is stored.
    pub(super) async fn preview(&self, client: &Client) -> anyhow::Result<Preview> {
        let mut drain = self.manifest()?;
        // A drain of that name may exist.
        drain.metadata.name = None;
        drain.metadata.generate_name = Some("plan-".to_owned());
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let api: Api<NodeEvacuation> = Api::all(client.clone());
        let reply = api.create(&params, &drain).await.context("the drain cannot be planned")?;
        let status = reply.status.unwrap_or_default();
        if status.verdict.is_none() {
            bail!("the server made no plan: it cannot read the nodes and their pods at the moment");
        }
        if let Some(missing) = status.nodes.iter().find(|node| node.phase == DrainedNodePhase::Failed) {
            let why = missing.message.as_deref().unwrap_or_default();
            bail!("node {} cannot be drained: {why}", missing.name);
        }
        if let (true, Some(selector)) = (status.nodes.is_empty(), &self.selector) {
            bail!("no node has the labels {selector:?}");
        }
        Ok(Preview(status))
    }
}

impl Preview {
    /// Returns the nodes.
    pub(super) fn nodes(&self) -> &[DrainedNode] {
        &self.0.nodes
    }

    /// Returns the pods with which the drain would do that.
    pub(super) fn pods(&self, act: PlannedAct) -> impl Iterator<Item = &PlannedPod> {
        self.0.plan.iter().filter(move |pod| pod.act == act)
    }

    /// Returns what would hold an asked pod back now.
    pub(super) fn obstacle(&self, pod: &PlannedPod) -> Option<String> {
        let of_pod = self.0.blockers.iter().find(|blocker| blocker.pod.as_ref() == Some(&pod.pod))?;
        Some(plain(&format!("{}: {}", of_pod.reason, of_pod.message)))
    }

    /// Returns the plan in one line.
    pub(super) fn summary(&self) -> &str {
        self.0.message.as_deref().unwrap_or_default()
    }

    /// Returns true when a pod keeps the drain from beginning.
    pub(super) fn is_refused(&self) -> bool {
        self.pods(PlannedAct::Refuse).next().is_some()
    }

    /// Prints warnings about pods that are left alone, and about data or pods that are lost.
    pub(super) fn print_warnings(&self) {
        for pod in &self.0.plan {
            for why in &pod.reasons {
                match pod.act {
                    // kubectl drain does not mention mirror pods either.
                    PlannedAct::Leave if why.reason == "Mirror" => {}
                    PlannedAct::Leave => eprintln!("warning: {} is left alone: {}", pod.pod, why.message),
                    PlannedAct::Ask => eprintln!("warning: {}: {}", pod.pod, why.message),
                    PlannedAct::Delete | PlannedAct::Refuse => {}
                }
            }
        }
        if self.0.plan_omitted > 0 {
            eprintln!("warning: {} more pods are not listed", self.0.plan_omitted);
        }
    }

    /// Prints the reasons for which the drain must not begin, with the flags that let it continue.
    pub(super) fn print_refusals(&self) {
        for pod in self.pods(PlannedAct::Refuse) {
            for why in &pod.reasons {
                let way_out = flag(&why.reason).map(|flag| format!(" (use {flag})")).unwrap_or_default();
                eprintln!("error: {}: {}{way_out}", pod.pod, plain(&why.message));
            }
        }
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
