//! The drains that the command line names.

use anyhow::{Context, bail};
use evacuation_api::NodeEvacuation;
use kube::{Api, Client, ResourceExt, api::ListParams};

use crate::{connection::user_name, node::node_name, status::is_drain};

/// Returns the drain of that name, or else the caller's drains of that node alone.
pub(super) async fn find(
    client: &Client,
    api: &Api<NodeEvacuation>,
    text: &str,
) -> anyhow::Result<Vec<NodeEvacuation>> {
    let failed = || format!("nodeevacuation {text} cannot be read");
    let node = match text.split_once('/') {
        Some((resource, name)) if is_drain(resource) => {
            return Ok(vec![api.get(name).await.with_context(failed)?]);
        }
        Some(_) => node_name(text).map_err(anyhow::Error::msg)?,
        None => match api.get_opt(text).await.with_context(failed)? {
            Some(drain) => return Ok(vec![drain]),
            None => text.to_owned(),
        },
    };
    let user = user_name(client).await?;
    let all = api.list(&ListParams::default()).await.context("nodeevacuations cannot be listed")?.items;
    let found: Vec<_> = all.iter().filter(|drain| nodes(drain).contains(&node.as_str())).collect();
    let ours: Vec<_> =
        found.iter().filter(|drain| is_of(drain, &user) && nodes(drain).len() == 1).copied().collect();
    if ours.is_empty() {
        let names: Vec<_> = found.iter().map(|drain| drain.name_any()).collect();
        if names.is_empty() {
            bail!("no nodeevacuation has the name {text}, and none drains a node {node}");
        }
        bail!(
            "node {node} has no drain of its own by {user}: it is drained by {}; to cancel a whole drain, name \
             it; to take only this node out, run: kubectl uncordon {node}",
            names.join(", ")
        );
    }
    Ok(ours.into_iter().cloned().collect())
}

fn nodes(drain: &NodeEvacuation) -> Vec<&str> {
    let known: Vec<&str> =
        drain.status.iter().flat_map(|status| &status.nodes).map(|node| node.name.as_str()).collect();
    if known.is_empty() { drain.spec.nodes.names.iter().map(String::as_str).collect() } else { known }
}

fn is_of(drain: &NodeEvacuation, user: &str) -> bool {
    let requester = drain.status.as_ref().and_then(|status| status.requester.as_ref());
    requester.is_some_and(|requester| requester.user == user)
}
