//! Requests for the listed pods of a DrainRequest.

use std::sync::Arc;

use evacuation_api::{Requester, RequesterKey, from_condition_time};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams, core::DynamicObject};
use tokio::sync::Mutex;

use super::{
    DrainRequests,
    conditions::State,
    request::{ENTRY_PREFIX, Request, Standing, entry, entry_name, standing},
};
use crate::cluster::{CallError, ObjectKey, all_done, call, is_finished, prune_pod};

/// Maximum number of pods of one request that are asked at once. More are asked as those go.
const MAX_ASKED: usize = 500;
/// Number of requests that are under way at a time.
const AT_ONCE: usize = 8;

impl DrainRequests {
    /// Asks for the listed pods that are left, and returns the state.
    pub(super) async fn ask_for_pods(
        &self,
        object: &DynamicObject,
        request: &Request,
    ) -> Result<State, CallError> {
        let since = object.metadata.creation_timestamp.as_ref().map(from_condition_time).unwrap_or_default();
        let on_node: Vec<_> = self.view.index().pods_on(&request.node_name).cloned().collect();
        let mut left = request.remaining(&on_node, since);
        if left.is_empty() {
            // The watch can be late. A pod that it has not shown would be lost by a reboot.
            let live = self.live_pods(&request.node_name).await?;
            left = request.remaining(&live, since);
        }
        if left.is_empty() {
            return Ok(State::complete("DrainComplete", "no listed pod is left on the node"));
        }
        let user = self.entries.user().await?;
        let entry = entry(object, request, self.deadline.map(|deadline| since + deadline));
        let key = RequesterKey { owner: user, name: &entry.name };
        let (mut asks, mut blocked, mut alone, mut active) = (Vec::new(), None, Vec::new(), 0);
        for pod in &left {
            if active >= MAX_ASKED {
                break;
            }
            let named = ObjectKey::of(pod.as_ref());
            let evacuations = self.view.index().evacuations_of(&named);
            match standing(pod, &evacuations, key) {
                Standing::Asked => {}
                Standing::Blocked(why) => blocked = blocked.or(Some(format!("{named}: {why}"))),
                Standing::LeftAlone(why) => {
                    alone.push(format!("{named}: {why}"));
                    continue;
                }
                standing => asks.push((Arc::clone(pod), standing)),
            }
            active += 1;
        }
        let rejected = Mutex::new(None);
        let acts = asks.iter().map(|(pod, standing)| self.ask(pod, standing, &entry, &rejected)).collect();
        all_done(acts, AT_ONCE).await?;
        let rejected = rejected.into_inner();
        let count = format!("{} listed pods are left on node {}", left.len(), request.node_name);
        Ok(match (alone.first(), blocked.or(rejected)) {
            (Some(first), _) if alone.len() == left.len() => State::failed("PodsLeftAlone", first),
            (_, Some(first)) => State::in_progress("Blocked", &format!("{count}; {first}")),
            _ => State::in_progress("Draining", &count),
        })
    }

    async fn ask(
        &self,
        pod: &Pod,
        standing: &Standing,
        entry: &Requester,
        rejected: &Mutex<Option<String>>,
    ) -> Result<(), CallError> {
        let why = match standing {
            Standing::Joinable(active) => self.entries.join(active, entry).await?,
            _ => self.entries.ask(pod, entry).await?,
        };
        if let Some(why) = why {
            rejected.lock().await.get_or_insert(format!("{}: {why}", ObjectKey::of(pod)));
        }
        Ok(())
    }

    /// Withdraws entries whose DrainRequest is gone without its finalizer. A live list confirms it.
    pub(super) async fn withdraw_orphans(&self) -> Result<(), CallError> {
        let owner = self.entries.user().await?.to_owned();
        let mut names: Vec<String> = Vec::new();
        for (_, evacuation) in self.view.index().evacuations().filter(|(_, e)| !is_finished(e)) {
            let ours = evacuation.spec.requesters.iter().filter(|entry| entry.owner == owner);
            names.extend(ours.map(|entry| entry.name.clone()).filter(|name| name.starts_with(ENTRY_PREFIX)));
        }
        for object in self.foreign.all() {
            names.retain(|name| *name != entry_name(&object));
        }
        if names.is_empty() {
            return Ok(());
        }
        let live: Vec<String> = self.foreign.list().await?.iter().map(entry_name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names.iter().filter(|name| !live.contains(name)) {
            self.entries.withdraw(name).await?;
        }
        Ok(())
    }

    async fn live_pods(&self, node: &str) -> Result<Vec<Arc<Pod>>, CallError> {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let mut live = call(format!("list the pods of node {node}"), pods.list(&on_node)).await?.items;
        live.iter_mut().for_each(prune_pod);
        Ok(live.into_iter().map(Arc::new).collect())
    }
}
