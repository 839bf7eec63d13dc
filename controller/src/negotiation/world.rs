//! State around an Evacuation, which its decision depends on.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, ResponderState, ResponderStatus, SELF_RESPONDER};
use evacuation_protocol::{
    BudgetView, GroupPod, LivePod, Member, PodPhase, PodView, Reachability, World, other_members,
    silent_since,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client};
use tracing::warn;

use super::evictor::{AttemptId, Attempts};
use crate::cluster::{
    CallError, Cluster, GroupModes, ObjectKey, ServerClock, TargetPod, View, call, group_key, is_finished,
    lock, node_name, read_pod,
};

/// Reader of the state around an Evacuation: pod, node and budgets.
pub(super) struct WorldReader {
    client: Client,
    view: Arc<View>,
    clock: Arc<ServerClock>,
    reachability: Arc<Mutex<Reachability>>,
    attempts: Arc<Attempts>,
    group_modes: Arc<GroupModes>,
}

impl WorldReader {
    /// Returns a reader that knows the attempts of this process.
    pub(super) fn new(cluster: &Cluster, attempts: Arc<Attempts>) -> Self {
        Self {
            client: cluster.client.clone(),
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
            reachability: Arc::clone(&cluster.reachability),
            attempts,
            group_modes: Arc::clone(&cluster.group_modes),
        }
    }

    /// Reads the state around an Evacuation. A pod that the watch does not show is read live, because the
    /// watch can be stale. A pod or node for which the app would be skipped is read live, too.
    pub(super) async fn read(&self, key: &ObjectKey, evacuation: &Evacuation) -> Result<World, CallError> {
        let target = self.view.index().target(evacuation);
        let pod = match target {
            TargetPod::Live(pod) if would_skip(evacuation, &pod) => self.target(key, evacuation).await?,
            TargetPod::Live(pod) => Some(pod),
            TargetPod::Gone => None,
            // An Evacuation that ended does not need its pod.
            TargetPod::Unknown if is_finished(evacuation) => None,
            TargetPod::Unknown => self.target(key, evacuation).await?,
        };
        let uid = evacuation.spec.target.pod.uid.as_deref().unwrap_or_default();
        let pod = pod.as_deref();
        let node_silent_since = match pod {
            Some(pod) => self.node_silent_since(evacuation, pod).await,
            None => None,
        };
        let group = match pod {
            Some(pod) if !is_finished(evacuation) => self.group(evacuation, pod).await,
            _ => Vec::new(),
        };
        let recovered = lock(&self.reachability).recovered_at(Instant::now());
        let index = self.view.index();
        Ok(World {
            pod: PodView::of(pod, uid),
            node_silent_since,
            budgets: pod
                .map(|pod| index.budgets_of(pod).iter().map(|budget| BudgetView::of(budget, pod)).collect())
                .unwrap_or_default(),
            group,
            no_room: None,
            turn: false,
            busy: false,
            recovered_at: recovered.map(|moment| self.clock.at(moment)),
            asked: None,
            attempt: self.attempts.view(key, &AttemptId::last(evacuation)),
        })
    }

    /// Returns the other members of the pod's PodGroup, if they move together.
    async fn group(&self, evacuation: &Evacuation, pod: &Pod) -> Vec<Member> {
        let Some(key) = group_key(pod) else { return Vec::new() };
        if !self.group_modes.moves_together(&key).await {
            return Vec::new();
        }
        let group = self.view.index().group(&key);
        let pods: Vec<_> = group
            .iter()
            .map(|(pod, all)| GroupPod { pod, evacuations: all.iter().map(AsRef::as_ref).collect() })
            .collect();
        other_members(evacuation, &pods)
    }

    /// Returns the time since which the kubelet of the pod's node does not report. A node that would keep
    /// `self` from being asked is read live. If that fails, the node counts as reachable, and the app's own
    /// timeout applies.
    async fn node_silent_since(&self, evacuation: &Evacuation, pod: &Pod) -> Option<DateTime<Utc>> {
        let known = self.view.index().node_silent_since(pod)?;
        let Some(name) = node_name(pod).filter(|_| may_skip_self(evacuation)) else {
            return Some(known);
        };
        let api: Api<Node> = Api::all(self.client.clone());
        match call(format!("read node {name}"), api.get_opt(name)).await {
            Ok(Some(node)) => {
                let since = silent_since(&node);
                self.view.apply(node);
                since
            }
            Ok(None) => Some(DateTime::<Utc>::MIN_UTC),
            Err(error) => {
                warn!(node = name, error = &error as &dyn std::error::Error, "the node was not read");
                None
            }
        }
    }

    /// Reads the target from the API. `None` when it is gone.
    pub(super) async fn target(
        &self,
        key: &ObjectKey,
        evacuation: &Evacuation,
    ) -> Result<Option<Arc<Pod>>, CallError> {
        let target = &evacuation.spec.target.pod;
        let pod_key = ObjectKey::new(key.namespace.clone(), target.name.clone());
        let found = read_pod(&self.client, &pod_key).await?;
        let found = found.filter(|pod| pod.metadata.uid == target.uid);
        match (&found, &target.uid) {
            (None, Some(uid)) => self.view.index().note_gone(&pod_key, uid),
            (Some(pod), _) => self.view.apply(pod.clone()),
            (None, None) => {}
        }
        // The watch may have reported the deletion while the read was under way.
        let gone = matches!(self.view.index().target(evacuation), TargetPod::Gone);
        Ok(found.filter(|_| !gone).map(Arc::new))
    }
}

/// Returns true if the pod's app is to be asked next and would be skipped because no container runs.
///
/// The caller then reads the pod live, because a skipped app is never asked later. The index may not show yet
/// that the app has started.
fn would_skip(evacuation: &Evacuation, pod: &Pod) -> bool {
    let live = LivePod::of(pod);
    if live.running_container || live.phase == PodPhase::Terminal || live.terminating_until.is_some() {
        return false;
    }
    is_self_in(evacuation, |r| r.state == ResponderState::Inactive)
}

/// Returns true if the node's state can still decide about `self`: it was not asked, or has not answered.
fn may_skip_self(evacuation: &Evacuation) -> bool {
    is_self_in(evacuation, |r| match r.state {
        ResponderState::Inactive => true,
        ResponderState::Active => r.answer.is_none(),
        _ => false,
    })
}

fn is_self_in(evacuation: &Evacuation, state: impl Fn(&ResponderStatus) -> bool) -> bool {
    let responders = evacuation.status.iter().flat_map(|status| status.responders.iter().flatten());
    !is_finished(evacuation) && responders.into_iter().any(|r| r.name == SELF_RESPONDER && state(r))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(running: bool, phase: &str) -> Pod {
        let state = if running { json!({"running": {}}) } else { json!({"waiting": {}}) };
        serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "status": {"phase": phase, "containerStatuses": [
                {"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state}
            ]},
        }))
        .unwrap()
    }

    fn evacuation(status: &Value) -> Evacuation {
        serde_json::from_value(json!({"spec": {"target": {"pod": {"name": "p"}}}, "status": status})).unwrap()
    }

    fn responders(state: &str) -> Value {
        json!({"responders": [
            {"name": "self", "priority": 1, "timeoutSeconds": 1, "maxDelaySeconds": 1, "state": state}
        ]})
    }

    #[test]
    fn a_pod_is_read_again_only_before_its_app_would_be_skipped() {
        let finished = json!({"conditions": [{"type": "Finished", "status": "True", "reason": "x", "message": "",
                                              "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        let table = vec![
            (responders("Inactive"), pod(false, "Pending"), true),
            (responders("Inactive"), pod(false, "Running"), true),
            (responders("Inactive"), pod(true, "Running"), false),
            (responders("Inactive"), pod(false, "Succeeded"), false),
            (responders("Active"), pod(false, "Running"), false),
            (json!({"responders": []}), pod(false, "Pending"), false),
            (finished, pod(false, "Pending"), false),
        ];
        for (status, pod, expected) in table {
            assert_eq!(would_skip(&evacuation(&status), &pod), expected, "{status} {pod:?}");
        }
    }
}
