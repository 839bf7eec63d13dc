//! The page of a node or a drain.

use evacuation_api::NodeEvacuation;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::{Page, evacuations, text::blocker_object};
use crate::{
    blockers::blocker_lines, drain_ref::has_ended, entry::has_entry, moment::Now, next::Next,
    output::drain_resource, plain::plain, statement::Statement, tracked::Tracked,
};

/// A drain with the pods that it has asked.
struct Asked {
    drain: NodeEvacuation,
    pods: Vec<Tracked>,
    nexts: Vec<(String, Next)>,
}

/// Reads the pods of drains.
pub(super) async fn page(client: &Client, drains: Vec<NodeEvacuation>) -> Page {
    let all = evacuations(client).await;
    let asked = |drain: NodeEvacuation| {
        let of_drain: Vec<_> = all.iter().filter(|evacuation| has_entry(evacuation, &drain)).collect();
        let pods: Vec<Tracked> = of_drain.iter().map(|evacuation| Tracked::of(evacuation)).collect();
        let nexts = pods.iter().filter_map(|pod| Some((pod.pod.clone(), pod.next?))).collect();
        Asked { drain, pods, nexts }
    };
    let all: Vec<Asked> = drains.into_iter().map(asked).collect();
    Page {
        object: json!({"drains": all.iter().map(Asked::object).collect::<Vec<_>>()}),
        names: all.iter().map(|asked| drain_resource(&asked.drain)).collect(),
        text: Box::new(move |wide, now| {
            all.iter().flat_map(|asked| asked.lines(wide, now)).collect::<Vec<_>>().join("\n")
        }),
    }
}

impl Asked {
    fn object(&self) -> Value {
        let status = self.drain.status.clone().unwrap_or_default();
        json!({
            "name": self.drain.name_any(), "verdict": self.drain.verdict(), "message": status.message,
            "paused": self.drain.spec.paused, "finished": has_ended(&self.drain),
            "pods": {"total": status.pods.total, "gone": status.pods.gone},
            "expectedCompletion": status.expected_completion,
            "next": self.nexts.iter().map(|(pod, next)| next.object(Some(pod))).collect::<Vec<_>>(),
            "heldBy": status.blockers.iter().map(blocker_object).collect::<Vec<_>>(),
            "heldByOmitted": status.blockers_omitted,
        })
    }

    fn lines(&self, wide: bool, now: Now) -> Vec<String> {
        let status = self.drain.status.clone().unwrap_or_default();
        let ended = has_ended(&self.drain);
        let pods: Vec<_> = self.pods.iter().collect();
        let statement = Statement::of(&self.drain, &pods, now);
        let named = statement.pod.filter(|_| !wide);
        let mut lines = vec![format!("nodeevacuation {}: {}", self.drain.name_any(), statement.text)];
        if let Some(message) =
            status.message.as_ref().filter(|_| ended || (now.led && status.blockers.is_empty()))
        {
            lines.push(plain(&format!("  {}", now.text(message))).trim_end().to_owned());
        }
        let others = status.blockers.iter().filter(|blocker| named.is_none() || blocker.pod != named);
        lines.extend(blocker_lines(others.filter(|_| !ended || wide), ended, now));
        if status.blockers_omitted > 0 {
            lines.push(format!("  and {} more", status.blockers_omitted));
        }
        if wide {
            let left = self.pods.iter().filter(|pod| !pod.is_gone());
            lines.extend(left.map(|pod| format!("  {}", pod.line(now))));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_a_node_says_what_holds_its_drain_and_what_helps() {
        let drain: NodeEvacuation = serde_json::from_value(json!({
            "metadata": {"name": "d"}, "spec": {"nodes": {"names": ["a"]}},
            "status": {
                "verdict": "Stuck", "message": "1 pod cannot move: shop/db-0: refused",
                "pods": {"total": 6, "gone": 5},
                "blockers": [{"node": "a", "pod": "shop/db-0", "owner": "StatefulSet/db", "stuck": true,
                              "reason": "Refused", "since": "2026-11-20T22:01:00Z",
                              "message": "responder self refused; what helps: ask it"}],
            },
        }))
        .unwrap();
        let asked = Asked { drain, pods: Vec::new(), nexts: Vec::new() };
        let now = Now { time: "2026-11-20T22:05:00Z".parse().unwrap(), led: true };
        assert_eq!(
            asked.lines(false, now),
            [
                "nodeevacuation d: Stuck, 5/6 gone. 1 pod needs a change, named below.",
                "  pod/shop/db-0 of StatefulSet/db: Refused since 22:01:00Z (4 min): responder self refused",
                "    what helps: ask it",
            ]
        );
        let object = asked.object();
        assert_eq!(object["verdict"], "Stuck");
        assert_eq!(object["heldBy"][0]["wayOut"], "ask it");
        assert_eq!(object["pods"], json!({"total": 6, "gone": 5}));
    }
}
