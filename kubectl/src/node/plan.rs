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
    /// Prints the pods that the drain would ask, delete, wait for or leave alone, and those that something
    /// holds back.
    pub(super) fn print(&self, output: Option<View>) -> anyhow::Result<Exit> {
        let rendered = match output {
            Some(view) => view.render(&self.object(), &self.names())?,
            None => None,
        };
        match rendered {
            Some(text) if text.is_empty() => {}
            Some(text) => say(text)?,
            None => self.text(output == Some(View::Wide)).iter().try_for_each(tell)?,
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

    /// Returns the plan for people: the nodes, and the pods that would go.
    fn text(&self, wide: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for node in self.nodes() {
            let will = if is_cordoned(node) { "is already cordoned" } else { "would be cordoned" };
            let pods = count(usize::try_from(node.pods.total).unwrap_or_default(), "pod");
            let pods = if wide { format!(", and {pods} would go") } else { String::new() };
            lines.push(format!("node/{} {will}{pods}", node.name));
        }
        for (pod, act) in self.going() {
            let place = if wide { format!(" on {}", pod.node) } else { String::new() };
            let why = match pod.act {
                PlannedAct::Delete => ", because it has ended",
                PlannedAct::Wait => ", because it terminates already",
                PlannedAct::Ask | PlannedAct::Leave | PlannedAct::Refuse => "",
            };
            lines.push(format!("pod/{}{place} would be {act}{why}", pod.pod));
            lines.extend(self.obstacle(pod).map(|obstacle| format!("  {obstacle}")));
        }
        lines.extend(self.unmarked());
        lines
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
            "message": self.message(),
        })
    }

    /// Returns the pods that would go, as `pod/NAMESPACE/NAME`.
    fn names(&self) -> Vec<String> {
        self.going().map(|(pod, _)| format!("pod/{}", pod.pod)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_terminates_already_is_waited_for_and_not_asked() {
        let pod = |name: &str, act: &str| json!({"act": act, "node": "a", "pod": format!("shop/{name}"), "uid": name, "reasons": []});
        let finalizer = json!({"node": "a", "pod": "shop/kept", "reason": "Finalizer", "object": "Pod/kept",
                               "stuck": true, "since": "2026-11-20T22:00:00Z",
                               "message": "it keeps a finalizer; what helps: repair it"});
        let preview = Preview::of(json!({
            "nodes": [{"name": "a", "pods": {"total": 4}}],
            "plan": [pod("web", "Ask"), pod("job", "Delete"), pod("db", "Wait"), pod("kept", "Wait"),
                     pod("agent", "Leave")],
            "blockers": [finalizer],
        }));
        assert_eq!(
            preview.text(false),
            [
                "node/a would be cordoned",
                "pod/shop/web would be asked",
                "pod/shop/job would be deleted, because it has ended",
                "pod/shop/db would be waited for, because it terminates already",
                "pod/shop/kept would be waited for, because it terminates already",
                "  would be held back by Pod/kept: Finalizer: it keeps a finalizer; what helps: repair it",
            ]
        );
        let wide = preview.text(true);
        assert_eq!(wide[0], "node/a would be cordoned, and 4 pods would go");
        assert_eq!(wide[3], "pod/shop/db on a would be waited for, because it terminates already");
        let object = preview.object();
        assert_eq!(
            (&object["pods"][2]["pod"], &object["pods"][2]["act"]),
            (&json!("shop/db"), &json!("Wait"))
        );
        assert_eq!(preview.names(), ["pod/shop/web", "pod/shop/job", "pod/shop/db", "pod/shop/kept"]);
    }
}
