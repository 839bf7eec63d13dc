//! `--plan`: the course of a drain, computed from the cluster as it is now.

use evacuation_api::PlannedAct;

use super::preview::{Preview, is_cordoned};
use crate::{Exit, output::say};

impl Preview {
    /// Prints the pods that the drain would ask, delete or leave alone, and those that a budget holds back.
    pub(super) fn print(&self) -> anyhow::Result<Exit> {
        for node in self.nodes() {
            let will = if is_cordoned(node) { "is already cordoned" } else { "would be cordoned" };
            say(format_args!("node/{} {will}", node.name))?;
        }
        for pod in self.pods(PlannedAct::Ask) {
            say(format_args!("pod/{} would be asked", pod.pod))?;
            if let Some(obstacle) = self.obstacle(pod) {
                say(format_args!("  would be held back: {obstacle}"))?;
            }
        }
        for pod in self.pods(PlannedAct::Delete) {
            say(format_args!("pod/{} would be deleted, because it has ended", pod.pod))?;
        }
        self.print_warnings();
        self.print_refusals();
        say(self.summary())?;
        if !self.is_refused() {
            return Ok(Exit::Done);
        }
        eprintln!("error: the drain would not begin");
        Ok(Exit::Errors)
    }
}
