//! The drains that a cancellation names.

use anyhow::bail;
use evacuation_api::NodeEvacuation;
use kube::{Client, ResourceExt};

use crate::{
    connection::user_name,
    drain_ref::{DrainRef, Found, current, has_ended, nodes},
};

/// Returns the drain of that name, or else the caller's drains of that node alone: the unfinished ones, or
/// else the newest.
pub(super) async fn find(client: &Client, name: &DrainRef) -> anyhow::Result<Vec<NodeEvacuation>> {
    let (node, found) = match name.find(client).await? {
        Found::Named(drain) => return Ok(vec![*drain]),
        Found::OfNode(node, found) => (node, found),
    };
    if found.is_empty() {
        bail!("{}", name.nothing());
    }
    let user = user_name(client).await?;
    let (ours, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|drain| is_of(drain, &user) && nodes(drain).len() == 1);
    if ours.is_empty() {
        let others = current(others);
        let state = if others.iter().all(has_ended) { "was" } else { "is" };
        let names: Vec<_> = others.iter().map(ResourceExt::name_any).collect();
        bail!(
            "node {node} has no drain of its own by {user}: it {state} drained by {}; to cancel a whole drain, \
             name it; to take only this node out, run: kubectl uncordon {node}",
            names.join(", ")
        );
    }
    Ok(current(ours))
}

fn is_of(drain: &NodeEvacuation, user: &str) -> bool {
    let requester = drain.status.as_ref().and_then(|status| status.requester.as_ref());
    requester.is_some_and(|requester| requester.user == user)
}
