//! DrainRequests of NVSentinel: the bridge takes the place of a drain plugin.
//!
//! # Flow
//!
//! A DrainRequest gets a finalizer. One that lists pods becomes one entry for each listed pod. One without a
//! list becomes a NodeEvacuation, which leaves the cordon to NVSentinel. The condition `DrainComplete` ends
//! it, and the finalizer goes at once. A deletion before that withdraws the requests.
//!
//! # Guarantees
//!
//! `DrainComplete` is True only when no listed pod is left on the node, which a live read confirms.
//! NVSentinel may reboot the node then. A deleted or failed request is never complete. Requests are keyed by
//! the DrainRequest's UID. At most 500 pods of one request are asked at once.

mod request;

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use evacuation_api::{
    CordonPolicy, DRAIN_REQUEST_FINALIZER as FINALIZER, Evacuation, LateRule, Requester as Entry,
    RequesterKey, WholeSecond, from_condition_time,
};
use evacuation_protocol::awaits_acknowledgement;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{ResourceExt, core::DynamicObject};
use serde_json::{Value, json};

use self::request::{Request, Standing, conditions, is_complete, standing};
use super::{
    BridgeOptions,
    drains::{DRAINING, Outcome, Progress},
    foreign::ForeignKind,
    requester::{Asked, Requester, Requests},
    text::{fitting, is_rejection, refusal, text, unique_name},
};
use crate::cluster::{
    CallError, Cluster, ObjectKey, TargetPod, call, evacuations, is_finished, is_settled_by_the_watch,
};

const KIND: ForeignKind = ForeignKind {
    gvk: ["nvsentinel.nvidia.com", "v1alpha1", "DrainRequest"],
    spec: &["nodeName", "podsToDrain", "checkName", "reason"],
    status: &["conditions"],
};
/// Beginning of the finalizers of other drain plugins.
const PLUGINS: &str = "nvsentinel.nvidia.com/";
/// Annotation of a node that NVSentinel has put into quarantine.
const QUARANTINE: &str = "quarantineHealthEvent";
/// Reason of this bridge's requests.
const REASON: &str = "HardwareFault";
/// Beginning of the names of this bridge's entries. The name of the DrainRequest follows.
const ENTRY_PREFIX: &str = "nvsentinel.evacuation.dev/";
/// Maximum number of pods of one request that are asked at once. More are asked as those go.
const MAX_ASKED: usize = 500;
/// Number of calls that are under way at a time.
const AT_ONCE: usize = 8;

/// The bridge that serves DrainRequests.
pub(crate) struct DrainRequests {
    requests: Requests,
}

impl DrainRequests {
    /// Returns the bridge.
    pub(crate) fn new(cluster: &Cluster, options: &BridgeOptions) -> Arc<Self> {
        Arc::new(Self { requests: Requests::new(cluster, options, &KIND, FINALIZER) })
    }

    /// Asks for the listed pods that are left.
    async fn ask_for_pods(&self, object: &DynamicObject, request: &Request) -> Result<Progress, CallError> {
        let (node, cluster) = (&request.node_name, &self.requests.cluster);
        let since = object.metadata.creation_timestamp.as_ref().map(from_condition_time).unwrap_or_default();
        let mut left: Vec<Arc<Pod>> = cluster.view.index().pods_on(node).cloned().collect();
        left.retain(|pod| request.wants(pod, since));
        if left.is_empty() {
            // The watch can be late. A pod that it has not shown would be lost by a reboot.
            let live = cluster.lister.pods_on(node).await?;
            left.extend(live.into_iter().filter(|pod| request.wants(pod, since)));
        }
        if left.is_empty() {
            return Ok(Progress::new(Outcome::Complete, "DrainComplete", "no listed pod is left"));
        }
        let entry = Entry {
            owner: self.requests.user().await?.to_owned(),
            reason: Some(REASON.to_owned()),
            message: Some(message(object)),
            deadline: self.requests.deadline.map(|deadline| WholeSecond::from(since + deadline)),
            ..Entry::named(entry_name(object))
        };
        let (mut asks, mut blocked, mut alone) = (Vec::new(), Vec::new(), Vec::new());
        for pod in &left {
            let named = ObjectKey::of(pod.as_ref());
            let evacuations = cluster.view.index().evacuations_of(&named);
            match standing(pod, &evacuations, &entry) {
                Standing::Unasked(next) => asks.push(self.ask_pod(named, *next)),
                Standing::Asked(why) => blocked.push(why.map(|why| format!("{named}: {why}"))),
                Standing::LeftAlone(why) => alone.push(format!("{named}: {why}")),
            }
        }
        asks.truncate(MAX_ASKED.saturating_sub(blocked.len()));
        // A failure keeps no other pod from being asked.
        for asked in stream::iter(asks).buffered(AT_ONCE).collect::<Vec<_>>().await {
            blocked.push(asked?);
        }
        let count = match left.len() {
            1 => format!("1 listed pod is left on node {node}"),
            count => format!("{count} listed pods are left on node {node}"),
        };
        let alone = alone.first().filter(|_| alone.len() == left.len());
        Ok(match (alone, blocked.iter().flatten().next()) {
            (Some(first), _) => Progress::new(Outcome::Failed, "PodsLeftAlone", first),
            (_, Some(first)) => Progress::new(Outcome::Asking, "Blocked", &format!("{count}; {first}")),
            _ => Progress::new(Outcome::Asking, DRAINING, &count),
        })
    }

    /// Asks a pod by an entry in its Evacuation. Returns the reason of a rejection.
    async fn ask_pod(&self, pod: ObjectKey, next: Evacuation) -> Result<Option<String>, CallError> {
        match self.write(&next, format!("ask pod {pod} to move")).await {
            // The watch shows the Evacuation to join, or that the pod is gone.
            Err(error) if is_settled_by_the_watch(&error) => Ok(None),
            Err(error) if is_rejection(&error) => Ok(Some(format!("{pod}: {}", refusal(&error)))),
            written => written.map(|()| None),
        }
    }

    /// Removes every entry of that name. Returns true when the responders know, or had the time to.
    ///
    /// # Errors
    ///
    /// A 409 while an eviction is in flight: its outcome decides whether the withdrawal is possible.
    async fn withdraw(&self, name: &str) -> Result<bool, CallError> {
        let (owner, cluster) = (self.requests.user().await?, &self.requests.cluster);
        let key = RequesterKey { owner, name };
        let asking: Vec<Evacuation> = {
            let index = cluster.view.index();
            let asks = |known: &Evacuation| {
                // The Evacuation of a pod that is gone ends by itself.
                known.spec.requesters.iter().any(|entry| entry.key() == key)
                    && !is_finished(known)
                    && !matches!(index.target(known), TargetPod::Gone)
            };
            let all = index.evacuations().map(|(_, known)| known.as_ref());
            all.filter(|known| asks(known)).cloned().collect()
        };
        for mut next in asking {
            next.spec.requesters.retain(|entry| entry.key() != key);
            self.write(&next, format!("withdraw from evacuation {}", ObjectKey::of(&next))).await?;
        }
        let (now, index) = (cluster.clock.now(), cluster.view.index());
        let mut statuses = index.evacuations().filter_map(|(_, known)| known.status.as_ref());
        Ok(!statuses.any(|status| {
            status.requesters.iter().any(|known| known.key() == key) && awaits_acknowledgement(status, now)
        }))
    }

    /// Creates an Evacuation, or gives the one that was decided on these entries.
    async fn write(&self, next: &Evacuation, action: String) -> Result<(), CallError> {
        let cluster = &self.requests.cluster;
        cluster.leadership.check()?;
        let api = evacuations(&cluster.client, &next.namespace().unwrap_or_default());
        let written = match &next.metadata.name {
            Some(_) => {
                let set = |whole: &mut Evacuation| whole.spec.requesters.clone_from(&next.spec.requesters);
                call(action, api.edit(next, set)).await?
            }
            None => call(action, api.create(next)).await?,
        };
        cluster.view.apply(written);
        Ok(())
    }
}

/// Returns the message of a request, for people.
fn message(object: &DynamicObject) -> String {
    fitting(&format!("{}: {}", text(&object.data, "/spec/checkName"), text(&object.data, "/spec/reason")))
}

/// Returns the name of a DrainRequest's entries. It differs from that of any other, also of a later one of
/// the same name.
fn entry_name(object: &DynamicObject) -> String {
    format!("{ENTRY_PREFIX}{}", unique_name(object))
}

/// Returns true while NVSentinel keeps a node out of service.
fn is_quarantined(node: &Node) -> bool {
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    cordoned || node.annotations().contains_key(QUARANTINE)
}

#[async_trait]
impl Requester for DrainRequests {
    const NAME: &'static str = "bridge of DrainRequests";

    fn requests(&self) -> &Requests {
        &self.requests
    }

    /// A complete request is let go at once: one that lingers would count for the node's next health event.
    async fn is_over(&self, object: &DynamicObject) -> Result<bool, CallError> {
        let is_anothers = object.finalizers().iter().any(|finalizer| finalizer.starts_with(PLUGINS));
        Ok(is_anothers || is_complete(object))
    }

    async fn ask(&self, object: &DynamicObject) -> Asked {
        let Some(request) = Request::of(object) else {
            return Ok(Some(Progress::new(Outcome::Failed, "Unreadable", "the spec cannot be read")));
        };
        let Some(node) = self.requests.node(&request.node_name).await? else {
            return Ok(Some(Progress::new(Outcome::Complete, "NodeGone", "the node does not exist")));
        };
        if !is_quarantined(&node) {
            self.take_back(object).await?;
            let message = "the node is neither cordoned nor in quarantine";
            return Ok(Some(Progress::new(Outcome::Waiting, "NotQuarantined", message)));
        }
        if request.pods_to_drain.is_some() {
            return self.ask_for_pods(object, &request).await.map(Some);
        }
        let mut spec = self.requests.drain_spec(&request.node_name, REASON, &message(object));
        // NVSentinel has cordoned the node, and an uncordon by others would cancel its event.
        spec.cordon = Some(CordonPolicy::Never);
        spec.pods.late = Some(LateRule::Skip);
        self.requests.open(object, spec).await
    }

    fn change(&self, object: &DynamicObject, progress: &Progress) -> Option<Value> {
        let conditions = conditions(object, progress, self.requests.cluster.clock.now());
        conditions.map(|conditions| json!({"conditions": conditions}))
    }

    async fn take_back(&self, object: &DynamicObject) -> Result<bool, CallError> {
        // The pods of a complete one are gone: a withdrawal would cancel what is about to end.
        if !is_complete(object) && !self.withdraw(&entry_name(object)).await? {
            return Ok(false);
        }
        // The drain of a complete one holds nothing: its own finalizer sees to its end.
        Ok(self.requests.close(object).await? || is_complete(object))
    }

    /// Withdraws entries whose DrainRequest is gone without its finalizer. A live list confirms it.
    async fn take_back_orphans(&self) -> Result<(), CallError> {
        let owner = self.requests.user().await?;
        let names: HashSet<String> = {
            let index = self.requests.cluster.view.index();
            let active = index.evacuations().map(|(_, known)| known).filter(|known| !is_finished(known));
            let names = active.flat_map(|known| &known.spec.requesters);
            let names = names.filter(|entry| entry.owner == owner).map(|entry| &entry.name);
            names.filter(|name| name.starts_with(ENTRY_PREFIX)).cloned().collect()
        };
        if names.is_empty() || !self.requests.foreign.is_listed() {
            return Ok(());
        }
        let live = self.requests.foreign.list("").await?.iter().map(|object| entry_name(object)).collect();
        for name in names.difference(&live) {
            self.withdraw(name).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_in_service_is_not_in_quarantine() {
        let node = |value: Value| serde_json::from_value::<Node>(value).unwrap();
        assert!(!is_quarantined(&node(json!({"metadata": {"name": "a"}}))));
        assert!(is_quarantined(&node(json!({"metadata": {"name": "a"}, "spec": {"unschedulable": true}}))));
        let annotated = json!({"metadata": {"name": "a", "annotations": {QUARANTINE: "{}"}}});
        assert!(is_quarantined(&node(annotated)));
    }
}
