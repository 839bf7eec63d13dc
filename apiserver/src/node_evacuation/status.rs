//! Updates of the status by the controller: their bounds, and the end that is final (rule 6).

use evacuation_api::{
    DrainConditionType, MAX_COUNTED_PODS, MAX_DAEMON_SET_PODS, MAX_DRAIN_BLOCKERS, MAX_DRAINED_NODES,
    MAX_LEFT_ALONE_PODS, MAX_MESSAGE_LENGTH, MAX_RETURNED_OWNERS, MAX_RETURNED_PODS, NodeEvacuationStatus,
};
use machinery_validation::{FieldError, FieldErrorKind, FieldPath};

/// Maximum length of each text of an owner whose pods came back, in bytes.
const MAX_OWNER_TEXT: usize = 1024;

/// Returns every problem of a new status.
pub(super) fn validate_status(status: &NodeEvacuationStatus, old: &NodeEvacuationStatus) -> Vec<FieldError> {
    let path = FieldPath::new("status");
    let mut errors = final_parts(&path, status, old);
    let lists = [
        ("nodes", status.nodes.len(), MAX_DRAINED_NODES),
        ("blockers", status.blockers.len(), MAX_DRAIN_BLOCKERS),
        ("leftAlone", status.left_alone.len(), MAX_LEFT_ALONE_PODS),
    ];
    let lists = lists.into_iter().map(|(list, items, most)| (path.child(list), items, most));
    let of_nodes = status.nodes.iter().enumerate().map(|(i, node)| {
        let list = path.child("nodes").index(i).child("daemonSetPods");
        (list, node.daemon_set_pods.len(), MAX_DAEMON_SET_PODS)
    });
    let counted = status.nodes.iter().map(|node| node.counted_pods.len()).sum();
    let counted = (path.child("nodes"), counted, MAX_COUNTED_PODS);
    let returned = status.nodes.iter().map(|node| node.returned.len()).sum();
    let returned = (path.child("nodes"), returned, MAX_RETURNED_OWNERS);
    let rounds = status.nodes.iter().enumerate().flat_map(|(i, node)| {
        let list = path.child("nodes").index(i).child("returned");
        node.returned
            .iter()
            .enumerate()
            .map(move |(at, owner)| (list.index(at).child("pods"), owner.pods.len(), MAX_RETURNED_PODS))
    });
    for (field, items, most) in lists.chain(of_nodes).chain([counted, returned]).chain(rounds) {
        if items > most {
            let message = format!("must have at most {most} items, has {items}");
            errors.push(FieldError { kind: FieldErrorKind::TooMany, field, message });
        }
    }
    let owners = status.nodes.iter().enumerate().flat_map(|(i, node)| {
        let list = path.child("nodes").index(i).child("returned");
        node.returned.iter().enumerate().map(move |(at, owner)| (list.index(at), owner))
    });
    for (field, owner) in owners {
        let texts = [Some(&owner.namespace), owner.owner.as_ref(), owner.uid.as_ref()];
        if texts.into_iter().flatten().any(|text| text.len() > MAX_OWNER_TEXT) {
            let message = format!("the texts must have at most {MAX_OWNER_TEXT} bytes each");
            errors.push(FieldError { kind: FieldErrorKind::TooLong, field, message });
        }
    }
    errors.extend(messages(&path, status).filter(|(_, text)| text.len() > MAX_MESSAGE_LENGTH).map(
        |(field, _)| {
            let message = format!("must have at most {MAX_MESSAGE_LENGTH} bytes");
            FieldError { kind: FieldErrorKind::TooLong, field, message }
        },
    ));
    errors
}

/// Returns the problems of parts that may not change any more.
fn final_parts(
    path: &FieldPath,
    status: &NodeEvacuationStatus,
    old: &NodeEvacuationStatus,
) -> Vec<FieldError> {
    use DrainConditionType::{Drained, Failed, Finished};
    let mut errors = Vec::new();
    if old.finish_time.is_some() && status.finish_time != old.finish_time {
        errors.push(invalid(path.child("finishTime"), "may not change once it is set"));
    }
    if old.is_true(Finished) {
        for condition in [Finished, Drained, Failed] {
            if status.is_true(condition) != old.is_true(condition) {
                let message = format!("the drain has ended: {condition} may not change");
                errors.push(invalid(path.child("conditions"), message));
            }
        }
    }
    errors
}

fn invalid(field: FieldPath, message: impl Into<String>) -> FieldError {
    FieldError { kind: FieldErrorKind::Invalid, field, message: message.into() }
}

/// Returns every message of a status with its field.
fn messages<'a>(
    path: &FieldPath,
    status: &'a NodeEvacuationStatus,
) -> impl Iterator<Item = (FieldPath, &'a str)> {
    let item = |list: &str, i: usize| path.child(list).index(i).child("message");
    let own = status.message.iter().map(|text| (path.child("message"), text.as_str()));
    let nodes = status
        .nodes
        .iter()
        .enumerate()
        .filter_map(|(i, node)| Some((item("nodes", i), node.message.as_deref()?)));
    let blockers = status
        .blockers
        .iter()
        .enumerate()
        .map(|(i, blocker)| (item("blockers", i), blocker.message.as_str()));
    let conditions = status
        .conditions
        .iter()
        .enumerate()
        .map(|(i, condition)| (item("conditions", i), condition.message.as_str()));
    own.chain(nodes).chain(blockers).chain(conditions).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(value: &Value) -> NodeEvacuationStatus {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn condition(kind: &str, status: &str, message: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "R", "message": message,
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    fn node(message: &str) -> Value {
        json!({"name": "node-a", "message": message})
    }

    fn blocker(message: &str) -> Value {
        json!({"node": "node-a", "reason": "Refused", "since": "2026-01-01T00:00:00Z", "message": message})
    }

    fn came(pods: usize) -> Value {
        json!({"namespace": "a", "rounds": 1, "lastRoundTime": "2026-01-01T00:00:00Z", "pods": vec!["u"; pods]})
    }

    /// Each error as `KIND FIELD`.
    fn brief(new: &Value, old: &Value) -> Vec<String> {
        let errors = validate_status(&status(new), &status(old));
        errors.iter().map(|error| format!("{:?} {}", error.kind, error.field)).collect()
    }

    #[test]
    fn nodes_blockers_and_messages_are_bounded() {
        let long = "x".repeat(MAX_MESSAGE_LENGTH + 1);
        let most = &long[1..];
        let left = json!({"uid": "u", "node": "n", "pod": "a/b", "evacuation": "e",
                          "since": "2026-01-01T00:00:00Z"});
        for (new, error) in [
            (json!({"nodes": vec![node(""); MAX_DRAINED_NODES + 1]}), "TooMany status.nodes"),
            (json!({"blockers": vec![blocker(""); MAX_DRAIN_BLOCKERS + 1]}), "TooMany status.blockers"),
            (json!({"leftAlone": vec![left; MAX_LEFT_ALONE_PODS + 1]}), "TooMany status.leftAlone"),
            (
                json!({"nodes": [{"name": "a", "daemonSetPods": vec!["u"; MAX_DAEMON_SET_PODS + 1]}]}),
                "TooMany status.nodes[0].daemonSetPods",
            ),
            (
                json!({"nodes": [{"name": "a", "countedPods": vec!["u"; MAX_COUNTED_PODS]},
                                 {"name": "b", "countedPods": ["u"]}]}),
                "TooMany status.nodes",
            ),
            (
                json!({"nodes": [{"name": "a", "returned": vec![came(1); MAX_RETURNED_OWNERS]},
                                 {"name": "b", "returned": [came(1)]}]}),
                "TooMany status.nodes",
            ),
            (
                json!({"nodes": [{"name": "a", "returned": [came(1), came(MAX_RETURNED_PODS + 1)]}]}),
                "TooMany status.nodes[0].returned[1].pods",
            ),
            (
                json!({"nodes": [{"name": "a", "returned": [
                    {"namespace": "a", "owner": long, "rounds": 1, "lastRoundTime": "2026-01-01T00:00:00Z"}]}]}),
                "TooLong status.nodes[0].returned[0]",
            ),
            (json!({"message": long}), "TooLong status.message"),
            (json!({"nodes": [node(""), node(&long)]}), "TooLong status.nodes[1].message"),
            (json!({"blockers": [blocker(&long)]}), "TooLong status.blockers[0].message"),
            (
                json!({"conditions": [condition("Paused", "True", &long)]}),
                "TooLong status.conditions[0].message",
            ),
        ] {
            assert_eq!(brief(&new, &json!({})), [error]);
        }
        let largest = json!({
            "message": most,
            "nodes": vec![node(most); MAX_DRAINED_NODES],
            "blockers": vec![blocker(most); MAX_DRAIN_BLOCKERS],
        });
        assert_eq!(brief(&largest, &json!({})), [""; 0]);
    }

    #[test]
    fn the_end_of_a_drain_is_final() {
        let at = "2026-01-01T00:00:00Z";
        let (finished, drained) = (condition("Finished", "True", ""), condition("Drained", "True", ""));
        let old = json!({"finishTime": at, "conditions": [finished, drained]});
        let unfinished = condition("Finished", "False", "");
        let failed = condition("Failed", "True", "");
        let cases = [
            (old.clone(), vec![]),
            (json!({"finishTime": at, "conditions": [finished, drained], "message": "m"}), vec![]),
            (json!({"conditions": [finished, drained]}), vec!["Invalid status.finishTime"]),
            (
                json!({"finishTime": "2026-01-02T00:00:00Z", "conditions": [finished, drained]}),
                vec!["Invalid status.finishTime"],
            ),
            (json!({"finishTime": at, "conditions": [drained]}), vec!["Invalid status.conditions"]),
            (
                json!({"finishTime": at, "conditions": [unfinished, drained]}),
                vec!["Invalid status.conditions"],
            ),
            (
                json!({"finishTime": at, "conditions": [finished, failed]}),
                vec!["Invalid status.conditions", "Invalid status.conditions"],
            ),
        ];
        for (new, errors) in cases {
            assert_eq!(brief(&new, &old), errors, "{new}");
        }
        let running = json!({"conditions": [unfinished, drained]});
        assert_eq!(brief(&json!({"finishTime": at, "conditions": [finished, failed]}), &running), [""; 0]);
    }
}
