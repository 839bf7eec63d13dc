//! A drain of the same user and nodes that has not ended.

use std::collections::BTreeSet;

use anyhow::Context;
use evacuation_api::{
    DrainConditionType, NodeEvacuation, NodeEvacuationSpec, NodeSelection, default_node_evacuation,
    from_condition_time,
};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::Node;
use crate::{connection::user_name, listing::readable, moment::Now, output::say};

impl Node {
    /// Returns the drain of this user and these nodes that is in progress, and says that it is shown. With
    /// `--name` only the drain of that name counts.
    pub(super) async fn in_progress(&self, client: &Client) -> anyhow::Result<Option<NodeEvacuation>> {
        let user = user_name(client).await?;
        let wanted = self.manifest()?;
        let api: Api<NodeEvacuation> = Api::all(client.clone());
        let drains = readable(&api).await.context("nodeevacuations cannot be listed")?;
        let named = |drain: &NodeEvacuation| self.name.as_ref().is_none_or(|name| *name == drain.name_any());
        let ours = |drain: &NodeEvacuation| {
            is_open_of(drain, &user) && is_same(&drain.spec.nodes, &wanted.spec.nodes) && named(drain)
        };
        let Some(drain) = drains.items.into_iter().find(ours) else { return Ok(None) };
        let name = drain.name_any();
        let now = Now::of(self.connection.outages().is_led());
        let created = drain.metadata.creation_timestamp.as_ref();
        let since = created.map(|time| now.since(from_condition_time(time)));
        say(format_args!(
            "node drain {name} is in progress since {}; showing it",
            since.unwrap_or_default()
        ))?;
        if !is_alike(&drain, &wanted) {
            eprintln!("warning: {name} was created with other flags, which stay; to change them:");
            eprintln!("warning: {}", change(&drain, &wanted));
        }
        if drain.spec.paused {
            eprintln!("warning: {name} is paused; what helps: kubectl evacuate resume {name}");
        }
        Ok(Some(drain))
    }
}

/// Returns true for a drain of that user that has neither ended nor been deleted.
pub(crate) fn is_open_of(drain: &NodeEvacuation, user: &str) -> bool {
    let Some(status) = &drain.status else { return false };
    let owner = status.requester.as_ref().map(|requester| requester.user.as_str());
    owner == Some(user)
        && drain.metadata.deletion_timestamp.is_none()
        && !status.is_true(DrainConditionType::Finished)
}

fn is_same(nodes: &NodeSelection, wanted: &NodeSelection) -> bool {
    let set = |selection: &NodeSelection| selection.names.iter().cloned().collect::<BTreeSet<_>>();
    set(nodes) == set(wanted) && nodes.selector == wanted.selector
}

/// Returns true when the specs differ in nothing but the order of the nodes and the pause.
fn is_alike(drain: &NodeEvacuation, wanted: &NodeEvacuation) -> bool {
    let spec = |drain: &NodeEvacuation| {
        let mut drain = drain.clone();
        default_node_evacuation(&mut drain);
        NodeEvacuationSpec { nodes: NodeSelection::default(), paused: false, ..drain.spec }
    };
    spec(drain) == spec(wanted)
}

/// Returns the command that makes the request and the rules of a drain those that are wanted. Null removes a
/// field.
fn change(drain: &NodeEvacuation, wanted: &NodeEvacuation) -> String {
    let fields = |drain: &NodeEvacuation| {
        let mut drain = drain.clone();
        default_node_evacuation(&mut drain);
        json!(NodeEvacuationSpec { nodes: NodeSelection::default(), paused: false, ..drain.spec })
    };
    let patch = json!({"spec": difference(&fields(drain), &fields(wanted))});
    format!("kubectl patch nodeevac {} --type=merge -p '{patch}'", drain.name_any())
}

/// Returns the merge patch that makes the one value the other.
fn difference(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
    let removed = from.keys().filter(|key| !to.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = to.iter().filter(|(key, value)| from.get(*key) != Some(value));
    let changed = changed.map(|(key, value)| {
        let old = from.get(key).cloned().unwrap_or_default();
        (key.clone(), difference(&old, value))
    });
    Value::Object(removed.chain(changed).collect())
}

#[cfg(test)]
mod tests {

    use super::*;

    fn drain(names: &Value, status: &Value) -> NodeEvacuation {
        serde_json::from_value(json!({
            "metadata": {"name": "d"}, "spec": {"nodes": {"names": names}}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn only_a_drain_of_the_user_that_has_not_ended_is_in_progress() {
        let requester = json!({"user": "alice", "time": "2026-11-20T22:00:00Z"});
        let finished = json!([{"type": "Finished", "status": "True", "reason": "Drained", "message": "",
                               "lastTransitionTime": "2026-11-20T22:00:00Z"}]);
        let open = json!({"requester": requester});
        let ended = json!({"requester": requester, "conditions": finished});
        for (status, user, expected) in
            [(&open, "alice", true), (&open, "bob", false), (&ended, "alice", false), (&json!({}), "", false)]
        {
            assert_eq!(is_open_of(&drain(&json!(["a"]), status), user), expected, "{status} {user}");
        }
        let mut deleted = drain(&json!(["a"]), &open);
        deleted.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-20T22:00:00Z")).unwrap();
        assert!(!is_open_of(&deleted, "alice"));
    }

    #[test]
    fn the_same_nodes_in_another_order_are_the_same_drain() {
        let nodes = |names: Value| drain(&names, &json!({})).spec.nodes;
        assert!(is_same(&nodes(json!(["a", "b"])), &nodes(json!(["b", "a"]))));
        assert!(!is_same(&nodes(json!(["a", "b"])), &nodes(json!(["a"]))));
        let (one, two) = (drain(&json!(["a", "b"]), &json!({})), drain(&json!(["b", "a"]), &json!({})));
        assert!(is_alike(&one, &two));
        let mut harder = two;
        harder.spec.requester.on_refusal = Some(evacuation_api::RefusalPolicy::Override);
        assert!(!is_alike(&one, &harder));
        let command = change(&one, &harder);
        let patch = r#"{"spec":{"requester":{"onRefusal":"Override"}}}"#;
        assert_eq!(command, format!("kubectl patch nodeevac d --type=merge -p '{patch}'"));
    }

    #[test]
    fn a_patch_removes_what_the_other_value_does_not_have() {
        let (from, to) = (json!({"a": {"b": 1, "c": 2}, "d": 3}), json!({"a": {"b": 4}, "d": 3}));
        assert_eq!(difference(&from, &to), json!({"a": {"b": 4, "c": null}}));
    }
}
