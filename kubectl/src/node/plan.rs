//! `--plan`: the course of a drain, computed from the cluster as it is now.

use evacuation_api::{DrainBlocker, DrainedNode, PlannedAct, PlannedPod};
use evacuation_protocol::message_parts;
use serde_json::{Value, json};

use super::preview::{Preview, is_cordoned};
use crate::{
    Exit,
    moment::count,
    output::{View, say, tell},
};

impl Preview {
    /// Prints the pods that the drain would ask, delete or leave alone, and those that a budget holds back.
    pub(super) fn print(&self, output: Option<View>) -> anyhow::Result<Exit> {
        let rendered = match output {
            Some(view) => view.render(&self.object(), &self.names())?,
            None => None,
        };
        match rendered {
            Some(text) if text.is_empty() => {}
            Some(text) => say(text)?,
            None => self.print_text(output == Some(View::Wide))?,
        }
        self.print_warnings();
        self.print_refusals();
        if matches!(output, None | Some(View::Wide)) {
            tell(self.summary())?;
        }
        if !self.is_refused() {
            return Ok(Exit::Done);
        }
        eprintln!("error: the drain would not begin");
        Ok(Exit::Errors)
    }

    fn print_text(&self, wide: bool) -> anyhow::Result<()> {
        for node in self.nodes() {
            let will = if is_cordoned(node) { "is already cordoned" } else { "would be cordoned" };
            let pods = count(usize::try_from(node.pods.total).unwrap_or_default(), "pod");
            let pods = if wide { format!(", and {pods} would go") } else { String::new() };
            say(format_args!("node/{} {will}{pods}", node.name))?;
        }
        for (act, would) in [
            (PlannedAct::Ask, "would be asked"),
            (PlannedAct::Delete, "would be deleted, because it has ended"),
        ] {
            for pod in self.pods(act) {
                let place = if wide { format!(" on {}", pod.node) } else { String::new() };
                say(format_args!("pod/{}{place} {would}", pod.pod))?;
                if let Some(obstacle) = self.obstacle(pod).filter(|_| act == PlannedAct::Ask) {
                    tell(format_args!("  {obstacle}"))?;
                }
            }
        }
        Ok(self.unmarked().iter().try_for_each(tell)?)
    }

    /// Returns the plan for programs.
    fn object(&self) -> Value {
        let pod = |pod: &PlannedPod| {
            let reasons = pod.reasons.iter().map(|why| json!({"reason": why.reason, "message": why.message}));
            json!({"pod": pod.pod, "uid": pod.uid, "node": pod.node, "act": pod.act,
                   "reasons": reasons.collect::<Vec<_>>()})
        };
        let blocker = |blocker: &DrainBlocker| {
            let (cause, way_out) = message_parts(&blocker.message);
            json!({"pod": blocker.pod, "node": blocker.node, "reason": blocker.reason, "object": blocker.object,
                   "message": cause, "wayOut": way_out})
        };
        let node = |node: &DrainedNode| json!({"name": node.name, "cordoned": is_cordoned(node)});
        json!({
            "leftOut": self.without_nodes(),
            "nodes": self.nodes().iter().map(node).collect::<Vec<_>>(),
            "pods": self.all_pods().iter().map(pod).collect::<Vec<_>>(),
            "podsOmitted": self.omitted(),
            "heldBackNow": self.blockers().iter().map(blocker).collect::<Vec<_>>(),
            "heldBackOmitted": self.blockers_omitted(),
            "begins": !self.is_refused(),
            "message": self.summary(),
        })
    }

    /// Returns the pods that would go, as `pod/NAMESPACE/NAME`.
    fn names(&self) -> Vec<String> {
        let asked = self.pods(PlannedAct::Ask).chain(self.pods(PlannedAct::Delete));
        asked.map(|pod| format!("pod/{}", pod.pod)).collect()
    }
}
