//! Drains as the command line names them: by their own name, or by a node that they drain.

use std::fmt::{self, Display, Formatter};

use anyhow::{Context, bail};
use evacuation_api::{DrainConditionType, NodeEvacuation};
use kube::{Api, Client, ResourceExt};

use crate::{listing::readable, node_name::node_name};

/// A name on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DrainRef {
    /// `nodeevacuation/NAME`.
    Drain(String),
    /// `node/NAME`.
    Node(String),
    /// A name alone: that of a drain, or else of a node.
    Either(String),
}

/// The drains of a name, finished ones included.
#[derive(Debug)]
pub(crate) enum Found {
    /// The drain of that name.
    Named(Box<NodeEvacuation>),
    /// The drains that contain that node; perhaps none.
    OfNode(String, Vec<NodeEvacuation>),
}

/// Reads a name on the command line, as kubectl prints it.
pub(crate) fn drain_ref(text: &str) -> Result<DrainRef, String> {
    match text.split_once('/') {
        None => Ok(DrainRef::Either(text.to_owned())),
        Some((resource, name)) if is_drain(resource) => Ok(DrainRef::Drain(name.to_owned())),
        Some(("node" | "nodes" | "no", _)) => node_name(text).map(DrainRef::Node),
        Some((resource, _)) => Err(format!("only nodeevacuations and nodes are drained, not {resource}")),
    }
}

fn is_drain(resource: &str) -> bool {
    let resource = resource.split('.').next().unwrap_or_default();
    matches!(resource, "nodeevacuation" | "nodeevacuations" | "nodeevac")
}

impl Display for DrainRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drain(name) => write!(f, "nodeevacuation/{name}"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Either(name) => f.write_str(name),
        }
    }
}

impl DrainRef {
    /// Reads the drains of the name.
    ///
    /// # Errors
    ///
    /// The drain of `nodeevacuation/NAME` does not exist, or drains cannot be read.
    pub(crate) async fn find(&self, client: &Client) -> anyhow::Result<Found> {
        let api: Api<NodeEvacuation> = Api::all(client.clone());
        let node = match self {
            Self::Drain(name) => {
                let drain = api.get(name).await;
                let drain = drain.with_context(|| format!("nodeevacuation {name} cannot be read"))?;
                return Ok(Found::Named(Box::new(drain)));
            }
            Self::Node(node) => node,
            Self::Either(name) => {
                let drain = api.get_opt(name).await;
                match drain.with_context(|| format!("nodeevacuation {name} cannot be read"))? {
                    Some(drain) => return Ok(Found::Named(Box::new(drain))),
                    None => name,
                }
            }
        };
        let all = readable(&api).await.context("nodeevacuations cannot be listed")?.items;
        let of_node = all.into_iter().filter(|drain| nodes(drain).contains(&node.as_str()));
        Ok(Found::OfNode(node.clone(), of_node.collect()))
    }

    /// Returns the drain of the name, or else the unfinished drains of the node, or else its newest one.
    /// There is at least one.
    ///
    /// # Errors
    ///
    /// There is none, or drains cannot be read.
    pub(crate) async fn current(&self, client: &Client) -> anyhow::Result<Vec<NodeEvacuation>> {
        let drains = self.find(client).await?.current();
        if drains.is_empty() {
            bail!("{}", self.nothing());
        }
        Ok(drains)
    }

    /// Returns the drain of the name, or else the unfinished drains of the node, or else its newest one. Each
    /// drains no other node.
    ///
    /// # Errors
    ///
    /// There is none, one drains other nodes, too, or drains cannot be read.
    pub(crate) async fn alone(&self, client: &Client) -> anyhow::Result<Vec<NodeEvacuation>> {
        let (node, found) = match self.find(client).await? {
            Found::Named(drain) => return Ok(vec![*drain]),
            Found::OfNode(node, drains) => (node, current(drains)),
        };
        if let Some(wide) = found.iter().find(|drain| nodes(drain).len() > 1) {
            let (name, others) = (wide.name_any(), nodes(wide).len().saturating_sub(1));
            bail!("nodeevacuation {name} drains node {node} and {others} more: name the drain, {name}");
        }
        if found.is_empty() {
            bail!("{}", self.nothing());
        }
        Ok(found)
    }

    /// Returns the statement that nothing of the name was found.
    pub(crate) fn nothing(&self) -> String {
        match self {
            Self::Drain(name) => format!("no nodeevacuation has the name {name}"),
            Self::Node(node) => format!("no nodeevacuation drains a node {node}"),
            Self::Either(name) => {
                format!("no nodeevacuation has the name {name}, and none drains a node {name}")
            }
        }
    }
}

impl Found {
    /// Returns the drain of the name, or else the unfinished drains of the node, or else its newest one.
    pub(crate) fn current(self) -> Vec<NodeEvacuation> {
        match self {
            Self::Named(drain) => vec![*drain],
            Self::OfNode(_, drains) => current(drains),
        }
    }
}

/// Returns the names of the nodes of a drain. Those of a selector are known once the drain has begun.
pub(crate) fn nodes(drain: &NodeEvacuation) -> Vec<&str> {
    let known: Vec<&str> =
        drain.status.iter().flat_map(|status| &status.nodes).map(|node| node.name.as_str()).collect();
    if known.is_empty() { drain.spec.nodes.names.iter().map(String::as_str).collect() } else { known }
}

/// Returns true when a drain has ended.
pub(crate) fn has_ended(drain: &NodeEvacuation) -> bool {
    drain.status.as_ref().is_some_and(|status| status.is_true(DrainConditionType::Finished))
}

/// Returns the unfinished drains by name, or else the one that was created last.
pub(crate) fn current(drains: Vec<NodeEvacuation>) -> Vec<NodeEvacuation> {
    let (ended, mut open): (Vec<_>, Vec<_>) = drains.into_iter().partition(has_ended);
    if open.is_empty() {
        open.extend(ended.into_iter().max_by_key(ResourceExt::creation_timestamp));
    }
    open.sort_by_key(ResourceExt::name_any);
    open
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_name_is_taken_as_kubectl_prints_it() {
        let name = || "a".to_owned();
        for (text, expected) in [
            ("a", Some(DrainRef::Either(name()))),
            ("node/a", Some(DrainRef::Node(name()))),
            ("nodes/a", Some(DrainRef::Node(name()))),
            ("nodeevac/a", Some(DrainRef::Drain(name()))),
            ("nodeevacuation.evacuation.dev/a", Some(DrainRef::Drain(name()))),
            ("pod/a", None),
            ("node/", None),
        ] {
            assert_eq!(drain_ref(text).ok(), expected, "{text}");
        }
        for text in ["a", "node/a", "nodeevacuation/a"] {
            assert_eq!(drain_ref(text).unwrap().to_string(), text);
        }
        let told = drain_ref("node/a").unwrap().nothing();
        assert_eq!(told, "no nodeevacuation drains a node a");
        let told = drain_ref("a").unwrap().nothing();
        assert_eq!(told, "no nodeevacuation has the name a, and none drains a node a");
    }

    fn drain(name: &str, created: &str, nodes: &Value, ended: bool) -> NodeEvacuation {
        let finished = json!({"type": "Finished", "status": "True", "reason": "Drained",
                              "message": "", "lastTransitionTime": created});
        let finished = if ended { json!([finished]) } else { json!([]) };
        serde_json::from_value(json!({
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"nodes": {"names": ["a"]}}, "status": {"nodes": nodes, "conditions": finished},
        }))
        .unwrap()
    }

    #[test]
    fn the_drains_of_a_node_are_the_unfinished_ones_or_else_the_newest() {
        let none = json!([]);
        let early = |name| drain(name, "2026-11-20T22:00:00Z", &none, true);
        let late = |name, ended| drain(name, "2026-11-20T23:00:00Z", &none, ended);
        let names = |drains| current(drains).iter().map(ResourceExt::name_any).collect::<Vec<_>>();
        assert_eq!(names(vec![late("z", false), early("y"), late("x", false)]), ["x", "z"]);
        assert_eq!(names(vec![late("z", true), early("y")]), ["z"]);
        assert!(names(vec![]).is_empty());
    }

    #[test]
    fn the_nodes_of_a_selector_are_known_from_the_status() {
        let before = drain("d", "2026-11-20T22:00:00Z", &json!([]), false);
        assert_eq!(nodes(&before), ["a"]);
        let begun = json!([{"name": "b", "phase": "Draining"}, {"name": "c", "phase": "Pending"}]);
        assert_eq!(nodes(&drain("d", "2026-11-20T22:00:00Z", &begun, false)), ["b", "c"]);
    }
}
