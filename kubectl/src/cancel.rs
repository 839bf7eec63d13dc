//! `kubectl evacuate cancel NAME|NODE...`

use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use evacuation_api::{
    CORDONED_BY_ANNOTATION, ConditionType, CordonOwner, DrainedNode, Evacuation, NodeEvacuation,
};
use evacuation_protocol::is_finished;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Node as CoreNode;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Preconditions},
    runtime::watcher::Event,
};

use crate::{
    Exit,
    connection::{Connection, user_name},
    node::{has_entry, is_cordoned, node_name},
    output::say,
    requester_flags::timeout,
    status::is_drain,
    watching::{drains, is_refused},
};

/// Cancel drains: take their requests back, and uncordon the nodes that they cordoned.
///
/// The command waits until the responders know, and prints what it left.
#[derive(Args, Debug)]
pub struct Cancel {
    /// Names of NodeEvacuations, or nodes: node/NAME, or the name of a node that is drained alone by you.
    #[arg(value_name = "NAME|NODE", required = true)]
    names: Vec<String>,
    /// Stop waiting after this time, with exit code 3; 0 means never. The cancellation continues.
    #[arg(long, value_name = "DURATION", value_parser = timeout, default_value = "2m")]
    timeout: Duration,
    #[command(flatten)]
    connection: Connection,
}

impl Cancel {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// A drain does not exist, or may not be deleted.
    pub async fn run(self) -> anyhow::Result<Exit> {
        let client = self.connection.client().await?;
        let api: Api<NodeEvacuation> = Api::all(client.clone());
        let mut wanted: Vec<NodeEvacuation> = Vec::new();
        for name in &self.names {
            for drain in find(&client, &api, name).await? {
                if wanted.iter().all(|known| known.uid() != drain.uid()) {
                    wanted.push(drain);
                }
            }
        }
        for drain in &wanted {
            let canceling = cancel(&client, &api, drain);
            let canceled = if self.timeout == Duration::MAX {
                Ok(canceling.await)
            } else {
                tokio::time::timeout(self.timeout, canceling).await
            };
            let Ok(canceled) = canceled else {
                eprintln!("timeout: the cancellation of nodeevacuation {} continues", drain.name_any());
                return Ok(Exit::TimedOut);
            };
            say(canceled?)?;
        }
        Ok(Exit::Done)
    }
}

/// Returns the drain of that name, or else the caller's drains of that node alone.
async fn find(client: &Client, api: &Api<NodeEvacuation>, text: &str) -> anyhow::Result<Vec<NodeEvacuation>> {
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

/// Deletes a drain and waits until it is gone. Returns what it left, in words.
async fn cancel(
    client: &Client,
    api: &Api<NodeEvacuation>,
    drain: &NodeEvacuation,
) -> anyhow::Result<String> {
    let name = drain.name_any();
    let open = open_requests(client, drain).await;
    let preconditions = Preconditions { uid: drain.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(&name, &params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        deleted => {
            deleted.with_context(|| format!("nodeevacuation {name} cannot be deleted"))?;
        }
    }
    until_gone(client, drain).await?;
    let mut left = vec![taken_back(client, open.as_deref()).await];
    for node in drain.status.iter().flat_map(|status| &status.nodes) {
        left.extend(cordon(client, node).await);
    }
    Ok(format!("nodeevacuation {name} canceled: {}", left.join(", ")))
}

/// Returns the UIDs of the Evacuations that hold the drain's entry and have not ended. `None` when they
/// cannot be listed.
async fn open_requests(client: &Client, drain: &NodeEvacuation) -> Option<Vec<String>> {
    let all = Api::<Evacuation>::all(client.clone()).list(&ListParams::default()).await.ok()?;
    let entry = drain.entry_name();
    let open =
        |e: &&Evacuation| has_entry(e, entry.as_deref()) && !e.status.as_ref().is_some_and(is_finished);
    Some(all.items.iter().filter(open).filter_map(ResourceExt::uid).collect())
}

/// Tells how many of those Evacuations did not move their pod.
async fn taken_back(client: &Client, open: Option<&[String]>) -> String {
    let now = Api::<Evacuation>::all(client.clone()).list(&ListParams::default()).await;
    let (Some(open), Ok(now)) = (open, now) else { return "its requests taken back".to_owned() };
    let moved = |e: &&Evacuation| {
        let evacuated = e.status.as_ref().is_some_and(|status| status.is_true(ConditionType::Evacuated));
        evacuated && e.uid().is_some_and(|uid| open.contains(&uid))
    };
    let count = open.len().saturating_sub(now.items.iter().filter(moved).count());
    format!("{count} request{} taken back", if count == 1 { "" } else { "s" })
}

async fn until_gone(client: &Client, drain: &NodeEvacuation) -> anyhow::Result<()> {
    let events = drains(client.clone(), Some(&drain.name_any()));
    pin_mut!(events);
    let (mut seen, mut allowed) = (false, false);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => seen = false,
            Ok(Event::InitApply(found)) => seen = found.uid() == drain.uid(),
            Ok(Event::InitDone) if seen => allowed = true,
            Ok(Event::InitDone | Event::Delete(_)) => break,
            Err(error) if !allowed && is_refused(&error) => {
                return Err(error).context("the drain is being canceled, and cannot be watched");
            }
            Ok(Event::Apply(_)) | Err(_) => {}
        }
    }
    Ok(())
}

/// Tells whether a node that was cordoned is cordoned still, and for whom.
async fn cordon(client: &Client, before: &DrainedNode) -> Option<String> {
    let name = &before.name;
    let node = Api::<CoreNode>::all(client.clone()).get_opt(name).await;
    match node {
        Ok(None) => None,
        Ok(Some(node)) => left(&node, before.cordoned),
        Err(_) => Some(format!("node/{name} cannot be read")),
    }
}

fn left(node: &CoreNode, before: CordonOwner) -> Option<String> {
    let name = node.name_any();
    match (before, is_cordoned(node)) {
        (CordonOwner::No | CordonOwner::Others, false) => None,
        (CordonOwner::Ours, false) => Some(format!("node/{name} uncordoned")),
        (_, true) => {
            let holders = node.annotations().get(CORDONED_BY_ANNOTATION).filter(|names| !names.is_empty());
            let why = match holders {
                Some(names) => format!("needed by {}", names.replace(',', " and ")),
                None => "cordoned by someone else".to_owned(),
            };
            Some(format!("node/{name} still cordoned ({why})"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_end_of_a_cancellation_says_what_became_of_each_cordon() {
        let node = |cordoned: bool, holders: Option<&str>| -> CoreNode {
            let annotations = holders.map(|names| json!({CORDONED_BY_ANNOTATION: names}));
            let metadata = json!({"name": "a", "annotations": annotations});
            serde_json::from_value(json!({"metadata": metadata, "spec": {"unschedulable": cordoned}}))
                .unwrap()
        };
        for (before, node, expected) in [
            (CordonOwner::Ours, node(false, None), Some("node/a uncordoned")),
            (CordonOwner::Ours, node(true, Some("x,y")), Some("node/a still cordoned (needed by x and y)")),
            (CordonOwner::Others, node(true, None), Some("node/a still cordoned (cordoned by someone else)")),
            (CordonOwner::No, node(false, None), None),
        ] {
            assert_eq!(left(&node, before).as_deref(), expected);
        }
    }
}
