//! The nodes of a drain, and their pods: those that it asks, leaves alone, and is refused by.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use evacuation_protocol::{DrainFilters, DrainRefusal, DrainSkip, pick};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Node as CoreNode, Pod},
};
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::Node;
use crate::plain::full_name;

/// Maximum number of nodes whose pods are listed at a time.
const LISTS: usize = 8;

/// The pods of the nodes, sorted by what the drain does with them.
pub(super) struct Chosen {
    /// The pods to ask.
    pub(super) pods: Vec<Pod>,
    /// The pods that have ended, which are deleted.
    pub(super) completed: Vec<Pod>,
    /// Warnings about pods that are left alone, and about data or pods that are lost.
    pub(super) warnings: Vec<String>,
    /// The reasons for which the drain must not begin.
    pub(super) refusals: Vec<String>,
}

impl Chosen {
    /// Prints the reasons for which the drain must not begin.
    pub(super) fn print_refusals(&self) {
        for refusal in &self.refusals {
            eprintln!("error: {refusal}");
        }
    }
}

impl Node {
    /// Reads the nodes to drain.
    pub(super) async fn read_nodes(&self, client: &Client) -> anyhow::Result<Vec<CoreNode>> {
        let api: Api<CoreNode> = Api::all(client.clone());
        if let Some(selector) = &self.selector {
            let nodes = api.list(&ListParams::default().labels(selector)).await;
            let nodes = nodes.with_context(|| format!("nodes with labels {selector:?} cannot be listed"))?;
            if nodes.items.is_empty() {
                bail!("no node has the labels {selector:?}");
            }
            return Ok(nodes.items);
        }
        let mut nodes = Vec::new();
        for name in self.named() {
            nodes.push(api.get(&name).await.with_context(|| format!("node {name} cannot be read"))?);
        }
        Ok(nodes)
    }

    /// Sorts the pods of the nodes by what the drain does with them.
    pub(super) async fn choose(&self, client: &Client, nodes: &[CoreNode]) -> anyhow::Result<Chosen> {
        let pods = stream::iter(nodes).map(|node| self.pods_on(client, node)).buffered(LISTS);
        let pods: Vec<Pod> = pods.try_collect::<Vec<_>>().await?.into_iter().flatten().collect();
        let filters = DrainFilters {
            daemon_sets: self.daemon_set_rule(),
            delete_empty_dir_data: self.delete_emptydir_data,
            force: self.force,
            skip_wait_for_delete_seconds: i64::from(self.skip_wait_for_delete_timeout),
            missing_daemon_sets: missing_daemon_sets(client, &pods).await?,
        };
        let picked = pick(&pods, &filters, chrono::Utc::now());
        let refusals = picked.refused.iter();
        let refusals = refusals.map(|(pod, why)| format!("{}: {why} (use {})", full_name(pod), flag(*why)));
        // kubectl drain does not mention mirror pods and pods that have ended either.
        let told = |skip: &DrainSkip| matches!(skip, DrainSkip::DaemonSet | DrainSkip::Terminating);
        let skipped = picked.skipped.iter().filter(|(_, skip)| told(skip));
        let skipped = skipped.map(|(pod, skip)| format!("{} is left alone: {skip}", full_name(pod)));
        let losses = picked.warnings.iter().map(|(pod, loss)| format!("{}: {loss}", full_name(pod)));
        Ok(Chosen {
            refusals: refusals.collect(),
            warnings: skipped.chain(losses).collect(),
            pods: picked.evacuate.into_iter().cloned().collect(),
            completed: picked.completed.into_iter().cloned().collect(),
        })
    }

    async fn pods_on(&self, client: &Client, node: &CoreNode) -> anyhow::Result<Vec<Pod>> {
        let node = node.name_any();
        let mut params = ListParams::default().fields(&format!("spec.nodeName={node}"));
        if let Some(labels) = &self.pod_selector {
            params = params.labels(labels);
        }
        let pods = Api::<Pod>::all(client.clone()).list(&params).await;
        Ok(pods.with_context(|| format!("the pods of node {node} cannot be listed"))?.items)
    }
}

/// Returns true when no pod is scheduled to the node.
pub(crate) fn is_cordoned(node: &CoreNode) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Returns the controllers of pods that are DaemonSets and do not exist, as `NAMESPACE/NAME`.
async fn missing_daemon_sets(client: &Client, pods: &[Pod]) -> anyhow::Result<BTreeSet<String>> {
    let mut looked_at = BTreeMap::new();
    for pod in pods {
        let owners = pod.owner_references().iter();
        let Some(owner) = owners.into_iter().find(|o| o.controller == Some(true) && o.kind == "DaemonSet")
        else {
            continue;
        };
        let namespace = pod.namespace().unwrap_or_default();
        let key = format!("{namespace}/{}", owner.name);
        if looked_at.contains_key(&key) {
            continue;
        }
        let found =
            Api::<DaemonSet>::namespaced(client.clone(), &namespace).get_metadata_opt(&owner.name).await;
        let found = found.with_context(|| format!("daemonset {key} cannot be read"))?;
        looked_at.insert(key, found.is_some());
    }
    Ok(looked_at.into_iter().filter(|(_, exists)| !exists).map(|(key, _)| key).collect())
}

/// Returns the flag that lets the drain continue.
fn flag(why: DrainRefusal) -> &'static str {
    match why {
        DrainRefusal::DaemonSet => "--ignore-daemonsets",
        DrainRefusal::LocalStorage => "--delete-emptydir-data",
        DrainRefusal::MissingDaemonSet | DrainRefusal::Unmanaged => "--force",
    }
}
