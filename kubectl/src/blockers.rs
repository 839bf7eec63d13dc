//! The blockers of a drain as lines. Those of the same cause share one. Pure.

use evacuation_api::{DrainBlocker, DrainBlockerReason};
use evacuation_protocol::message_parts;

use crate::{
    moment::{Now, count},
    plain::{help, place, plain},
};

/// Returns the blockers of the same cause together, in their order.
pub(crate) fn groups<'b>(blockers: impl IntoIterator<Item = &'b DrainBlocker>) -> Vec<Vec<&'b DrainBlocker>> {
    let mut groups: Vec<Vec<&DrainBlocker>> = Vec::new();
    for blocker in blockers {
        let same =
            |other: &&DrainBlocker| (&other.reason, &other.message) == (&blocker.reason, &blocker.message);
        match groups.iter_mut().find(|group| group.first().is_some_and(same)) {
            Some(group) => group.push(blocker),
            None => groups.push(vec![blocker]),
        }
    }
    groups
}

/// Returns the lines of blockers: for each cause its pods, the time since which it holds, and what helps.
pub(crate) fn blocker_lines<'b>(
    blockers: impl IntoIterator<Item = &'b DrainBlocker>,
    ended: bool,
    now: Now,
) -> Vec<String> {
    groups(blockers).iter().flat_map(|group| lines(group, ended, now)).collect()
}

fn lines(group: &[&DrainBlocker], ended: bool, now: Now) -> Vec<String> {
    let (Some(first), Some(since)) = (group.first(), group.iter().map(|blocker| blocker.since.0).min())
    else {
        return Vec::new();
    };
    let (cause, _) = message_parts(&first.message);
    let mut lines = vec![format!(
        "  {}: {} since {}: {}",
        places(group),
        first.reason,
        now.since(since),
        now.text(cause)
    )];
    if !ended {
        lines.extend(help(&first.message, now).map(|help| format!("    what helps: {}", now.text(help))));
    }
    lines.iter().map(|line| plain(line)).collect()
}

/// Returns the pods of a group, or its nodes. A dead node stands before its pods.
fn places(group: &[&DrainBlocker]) -> String {
    let places: Vec<String> = group.iter().map(|blocker| place(blocker)).collect();
    let places = places.join(", ");
    match dead_node(group) {
        Some(node) => format!("node/{node} with {} ({places})", count(group.len(), "pod")),
        None => places,
    }
}

/// Returns the node of blockers whose cause is that it does not report.
pub(crate) fn dead_node<'b>(group: &[&'b DrainBlocker]) -> Option<&'b str> {
    let first = group.first()?;
    (first.reason == DrainBlockerReason::NodeUnreachable.as_str()).then_some(first.node.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn blocker(pod: &str, reason: &str, message: &str) -> DrainBlocker {
        serde_json::from_value(json!({
            "node": "node-b", "pod": pod, "reason": reason, "since": "2026-11-20T22:00:00Z", "stuck": true,
            "owner": "StatefulSet/db", "message": message,
        }))
        .unwrap()
    }

    fn now() -> Now {
        Now { time: "2026-11-20T22:05:00Z".parse().unwrap(), led: true }
    }

    #[test]
    fn a_dead_node_is_named_once_before_its_pods() {
        let dead =
            |pod| blocker(pod, "NodeUnreachable", "node node-b does not report; what helps: repair it");
        let budget = blocker("shop/db", "BudgetAllowsNone", "budget db allows none; what helps: raise it");
        let all = [dead("shop/a"), budget, dead("shop/b")];
        assert_eq!(
            blocker_lines(&all, false, now()),
            [
                "  node/node-b with 2 pods (pod/shop/a of StatefulSet/db, pod/shop/b of StatefulSet/db): \
                 NodeUnreachable since 22:00:00Z (5 min): node node-b does not report",
                "    what helps: repair it",
                "  pod/shop/db of StatefulSet/db: BudgetAllowsNone since 22:00:00Z (5 min): budget db allows none",
                "    what helps: raise it",
            ]
        );
    }

    #[test]
    fn no_way_out_is_named_that_needs_a_controller_while_none_works() {
        let held = [blocker("shop/db", "Refused", "it refused; what helps: kubectl evacuate override db")];
        let lines = blocker_lines(&held, false, Now { led: false, ..now() });
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines.iter().all(|line| !line.contains("kubectl")), "{lines:?}");
    }
}
