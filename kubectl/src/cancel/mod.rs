//! `kubectl evacuate cancel NAME|NODE|pod/POD...`

mod cordon;
mod departing;
mod find;
mod pod;

use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use evacuation_api::{ConditionType, Evacuation, NodeEvacuation};
use evacuation_client::is_missing;
use evacuation_protocol::is_finished;
use futures::{StreamExt, pin_mut};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Preconditions},
    runtime::watcher::Event,
};
use tokio::time::{Instant, timeout_at};

use self::{
    cordon::cordon,
    departing::{departing, terminating},
    find::find,
};
use crate::{
    Exit,
    complaint::with_rest,
    connection::NamespacedConnection,
    drain_ref::DrainRef,
    duration::timeout,
    entry::has_entry,
    moment::{WAITS, count},
    output::{drain_resource, tell},
    set::{Target, target},
    watching::{drains, is_refused},
};

/// Maximum time that the command waits when no limit is wanted.
const FOR_EVER: Duration = Duration::from_hours(24 * 365);

/// Cancel drains: take their requests back, and uncordon the nodes that they cordoned. Or take your request
/// for one pod back.
///
/// For a drain the command waits until the responders know, and prints what it left.
#[derive(Args, Debug)]
pub struct Cancel {
    /// Names of NodeEvacuations, or nodes: node/NAME, or the name of a node that is drained alone by you; or
    /// pods as pod/NAME.
    #[arg(value_name = "NAME|NODE|pod/NAME", required = true, value_parser = target)]
    names: Vec<Target>,
    /// Of pods: name of the entry in spec.requesters to take back; your only one by default.
    #[arg(long, value_name = "DOMAIN/NAME")]
    requester: Option<String>,
    /// Of pods: owner of the entry to take back; you by default. Another's entry needs the verb override.
    #[arg(long, value_name = "USER")]
    owner: Option<String>,
    /// Stop waiting after this time, with exit code 3; 0 means never. The cancellation continues.
    #[arg(long, value_name = "DURATION", value_parser = timeout, default_value = "2m")]
    timeout: Duration,
    #[command(flatten)]
    connection: NamespacedConnection,
}

/// A drain that was deleted and is perhaps not gone.
struct Canceled {
    drain: NodeEvacuation,
    /// UIDs of the Evacuations that held its entry and had not ended. `None` when they cannot be listed.
    open: Option<Vec<String>>,
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
        let (pods, drains) = self.targets()?;
        for name in drains {
            let others = || self.names.iter().filter(|other| **other != Target::Drain(name.clone()));
            let found = find(&client, name).await;
            for drain in found.map_err(|error| with_rest(error, "canceled", others()))? {
                if wanted.iter().all(|known| known.uid() != drain.uid()) {
                    wanted.push(drain);
                }
            }
        }
        let drains: Vec<String> = wanted.iter().map(drain_resource).collect();
        for (at, name) in pods.iter().enumerate() {
            let canceled = pod::cancel(&client, name, self.owner.as_deref(), self.requester.as_deref()).await;
            let pods = pods.iter().skip(at + 1).map(|name| format!("pod/{name}"));
            canceled.map_err(|error| with_rest(error, "canceled", pods.chain(drains.iter().cloned())))?;
        }
        let mut canceled = Vec::new();
        for (at, drain) in wanted.into_iter().enumerate() {
            let deleted = delete(&client, &api, drain).await;
            let rest = drains.iter().skip(at + 1);
            canceled.push(deleted.map_err(|error| with_rest(error, "canceled", rest))?);
        }
        let until = Instant::now() + self.timeout.min(FOR_EVER);
        for canceled in canceled {
            let name = canceled.drain.name_any();
            let Ok(left) = timeout_at(until, canceled.left(&client)).await else {
                let course = if self.connection.outages().is_led() { "continues" } else { WAITS };
                eprintln!("timeout: the cancellation of nodeevacuation {name} {course}");
                return Ok(Exit::TimedOut);
            };
            tell(format_args!("nodeevacuation {name} canceled: {}", left?))?;
        }
        Ok(Exit::Done)
    }
}

impl Cancel {
    /// Returns the pods and the drains that are named.
    fn targets(&self) -> anyhow::Result<(Vec<&str>, Vec<&DrainRef>)> {
        let (mut pods, mut drains) = (Vec::new(), Vec::new());
        for name in &self.names {
            match name {
                Target::Pod(pod) => pods.push(pod.as_str()),
                Target::Drain(drain) => drains.push(drain),
            }
        }
        if pods.is_empty() && (self.owner.is_some() || self.requester.is_some()) {
            bail!("--owner and --requester choose a request for a pod: name it as pod/NAME");
        }
        Ok((pods, drains))
    }
}

async fn delete(
    client: &Client,
    api: &Api<NodeEvacuation>,
    drain: NodeEvacuation,
) -> anyhow::Result<Canceled> {
    let name = drain.name_any();
    let evacuations = evacuations(client).await;
    let open = |e: &&Evacuation| has_entry(e, &drain) && !e.status.as_ref().is_some_and(is_finished);
    let open = evacuations.map(|all| all.iter().filter(open).filter_map(ResourceExt::uid).collect());
    let preconditions = Preconditions { uid: drain.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(&name, &params).await {
        Err(kube::Error::Api(status)) if is_missing(&status, &name) => {}
        deleted => {
            deleted.with_context(|| format!("nodeevacuation {name} cannot be deleted"))?;
        }
    }
    Ok(Canceled { drain, open })
}

/// Returns all Evacuations, if the caller may list them.
async fn evacuations(client: &Client) -> Option<Vec<Evacuation>> {
    let all = Api::<Evacuation>::all(client.clone()).list(&ListParams::default()).await;
    all.ok().map(|all| all.items)
}

impl Canceled {
    /// Waits until the drain is gone. Returns what it left, in words.
    async fn left(self, client: &Client) -> anyhow::Result<String> {
        let last = self.until_gone(client).await?;
        let now = evacuations(client).await;
        let kept = match (&self.open, &now) {
            (Some(open), Some(now)) => Some((open.len(), kept(&last, open, now))),
            _ => None,
        };
        let taken_back = match &kept {
            Some((open, kept)) => taken_back(open.saturating_sub(kept.len())),
            None => "its requests taken back".to_owned(),
        };
        let mut left = vec![taken_back];
        let nodes = last.status.as_ref().map(|status| status.nodes.as_slice()).unwrap_or_default();
        for node in nodes {
            left.extend(cordon(client, node).await);
        }
        let kept = kept.map(|(_, kept)| kept).unwrap_or_default();
        left.extend(departing(&kept, &terminating(client, nodes).await));
        Ok(left.join(", "))
    }

    /// Waits until the drain is gone. Returns its last state.
    async fn until_gone(&self, client: &Client) -> anyhow::Result<NodeEvacuation> {
        let events = drains(client.clone(), &[self.drain.name_any()]);
        pin_mut!(events);
        let (mut last, mut seen, mut allowed) = (self.drain.clone(), false, false);
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => seen = false,
                Ok(Event::InitApply(found) | Event::Apply(found)) => {
                    // A later drain of the same name is another one.
                    if found.uid() != self.drain.uid() {
                        break;
                    }
                    (last, seen) = (found, true);
                }
                Ok(Event::InitDone) if seen => allowed = true,
                Ok(Event::InitDone | Event::Delete(_)) => break,
                Err(error) if !allowed && is_refused(&error) => {
                    return Err(error).context("the drain is being canceled, and cannot be watched");
                }
                Err(_) => {}
            }
        }
        Ok(last)
    }
}

/// Returns those of the Evacuations that moved their pod, or that hold the drain's entry for good.
fn kept<'e>(drain: &NodeEvacuation, open: &[String], now: &'e [Evacuation]) -> Vec<&'e Evacuation> {
    let stays = |e: &&Evacuation| {
        let entry = drain.entry_name();
        let ended = e.status.as_ref().is_some_and(is_finished);
        let holds = e.spec.requesters.iter().any(|requester| Some(&requester.name) == entry.as_ref());
        let moved = e.status.as_ref().is_some_and(|status| status.is_true(ConditionType::Evacuated));
        ((holds && !ended) || moved) && e.uid().is_some_and(|uid| open.contains(&uid))
    };
    now.iter().filter(stays).collect()
}

fn taken_back(number: usize) -> String {
    format!("{} taken back", count(number, "request"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_requests_that_no_longer_ask_and_moved_no_pod_were_taken_back() {
        let drain: NodeEvacuation = serde_json::from_value(json!({
            "metadata": {"name": "d", "uid": "0123456789"}, "spec": {"nodes": {"names": ["a"]}},
        }))
        .unwrap();
        let evacuation = |uid: &str, requesters: serde_json::Value, condition: &str| -> Evacuation {
            let condition = json!({"type": condition, "status": "True", "reason": "R", "message": "",
                                   "lastTransitionTime": "2026-11-20T22:00:00Z"});
            serde_json::from_value(json!({
                "metadata": {"name": uid, "uid": uid},
                "spec": {"target": {"pod": {"name": "db-0"}}, "requesters": requesters},
                "status": {"conditions": [condition]},
            }))
            .unwrap()
        };
        let entry = json!([{"owner": "alice", "name": drain.entry_name()}]);
        let now = [
            evacuation("canceled", json!([]), "Failed"),
            evacuation("evicted", json!([]), "Evacuated"),
            evacuation("accepted", entry, "Blocked"),
        ];
        let open = |uids: &[&str]| uids.iter().map(|&uid| uid.to_owned()).collect::<Vec<_>>();
        for (uids, expected) in [
            (&["canceled", "evicted", "accepted"][..], "1 request taken back"),
            (&["canceled", "removed"], "2 requests taken back"),
            (&[], "0 requests taken back"),
        ] {
            let taken = uids.len() - kept(&drain, &open(uids), &now).len();
            assert_eq!(taken_back(taken), expected);
        }
    }
}
