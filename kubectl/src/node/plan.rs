//! `--plan`: the course of a drain, computed from the cluster as it is now.

use k8s_openapi::api::core::v1::Node as CoreNode;
use kube::{Client, ResourceExt};

use super::{Node, pods::is_cordoned};
use crate::{
    Exit,
    output::say,
    plain::{full_name, plain},
    surroundings::Surroundings,
};

impl Node {
    /// Prints the pods that the drain would ask, delete or leave alone, and those that a budget holds back.
    /// Changes nothing.
    pub(super) async fn print_plan(&self, client: &Client, nodes: &[CoreNode]) -> anyhow::Result<Exit> {
        // A flag that the server cannot take is an error here too.
        self.spec()?;
        let chosen = self.choose(client, nodes).await?;
        let surroundings = Surroundings::of_pods(client, &chosen.pods).await?;
        for node in nodes {
            let will = if is_cordoned(node) { "is already cordoned" } else { "would be cordoned" };
            say(format_args!("node/{} {will}", node.name_any()))?;
        }
        let now = chrono::Utc::now();
        let mut held = 0_usize;
        for pod in &chosen.pods {
            say(format_args!("pod/{} would be asked", full_name(pod)))?;
            if let Some(obstacle) = surroundings.obstacle(pod, now) {
                held = held.saturating_add(1);
                say(plain(&format!("  would be held back: {}: {}", obstacle.reason, obstacle.message)))?;
            }
        }
        for pod in &chosen.completed {
            say(format_args!("pod/{} would be deleted, because it has ended", full_name(pod)))?;
        }
        for warning in &chosen.warnings {
            eprintln!("warning: {warning}");
        }
        chosen.print_refusals();
        let (asked, deleted) = (chosen.pods.len(), chosen.completed.len());
        say(format_args!("plan: {asked} asked, {deleted} deleted, {held} held back now"))?;
        if chosen.refusals.is_empty() {
            return Ok(Exit::Done);
        }
        eprintln!("error: the drain would not begin");
        Ok(Exit::Errors)
    }
}
