//! The objects that the plan sees, made from a state.

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{Evacuation, NodeEvacuation, NodeEvacuationStatus, Requester};
use evacuation_protocol::{DrainWorld, PodOnNode, cancel, drain_entry};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::{
    DrainConfig, DrainFlaw,
    state::{DrainState, EvacuationState, NodeState},
};

/// The objects of one state.
pub(super) struct Objects {
    /// The name of each node, whether it is there or not.
    names: Vec<String>,
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    evacuations: Vec<(usize, Evacuation)>,
}

/// The time so many seconds after the drains were created.
pub(super) fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
}

/// The drain of that number, if it is there.
pub(super) fn drain(config: &DrainConfig, state: &DrainState, number: usize) -> Option<NodeEvacuation> {
    let stored = state.drains.get(number)?.as_ref()?;
    let mut drain = described(config, number)?;
    drain.status = serde_json::from_str::<NodeEvacuationStatus>(&stored.status).ok();
    drain.spec.paused = stored.paused && config.flaw != Some(DrainFlaw::BlindToPauses);
    drain.metadata.deletion_timestamp = stored.deleted.then(|| evacuation_api::condition_time(at(0)));
    Some(drain)
}

/// The entry of the drain of that number.
pub(super) fn entry(config: &DrainConfig, number: usize) -> Option<Requester> {
    let mut drain = described(config, number)?;
    let status = json!({"requester": {"user": "alice", "time": "1970-01-01T00:00:00Z"}, "pods": {}});
    drain.status = serde_json::from_value(status).ok();
    drain_entry(&drain)
}

fn described(config: &DrainConfig, number: usize) -> Option<NodeEvacuation> {
    let names: Vec<String> = config.drains.get(number)?.iter().map(|node| node_name(*node)).collect();
    let deadline = (config.deadline && number == 0).then_some(60);
    let parallel = (config.in_turn && number == 0).then(|| json!({"nodes": 1}));
    let drain = json!({
        "metadata": {"name": drain_name(number), "uid": format!("{number}{number}{number}{number}{number}{number}{number}{number}-"), "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": {
            "nodes": {"names": names}, "requester": {"deadlineSeconds": deadline}, "maxParallel": parallel,
            "pods": {"daemonSets": if config.daemons.is_empty() { "Skip" } else { "Last" }},
        },
    });
    serde_json::from_value(drain).ok()
}

pub(super) fn drain_name(number: usize) -> String {
    format!("d{number}")
}

pub(super) fn node_name(number: usize) -> String {
    format!("n{number}")
}

impl Objects {
    /// Makes the objects.
    pub(super) fn of(config: &DrainConfig, state: &DrainState) -> Self {
        let names = (0..state.nodes.len()).map(node_name).collect();
        let nodes = state.nodes.iter().enumerate().filter(|(_, node)| !node.deleted);
        let nodes = nodes.map(|(number, node)| node_of(number, node));
        let mut evacuations = Vec::new();
        for (number, pod) in state.pods.iter().enumerate() {
            if let Some(active) = &pod.evacuation {
                evacuations.push((number, evacuation_of(config, (number, pod.generation), active)));
            }
            if !pod.canceled_for.is_empty() {
                let entries = pod.canceled_for.clone();
                let ended =
                    EvacuationState { recorded: entries.clone(), entries, ..EvacuationState::default() };
                let mut ended = evacuation_of(config, (number, pod.generation), &ended);
                ended.status = ended.status.map(|status| {
                    let mut status = cancel(&status, "the last requester left", at(0));
                    // The apps of this model acknowledge at once.
                    for responder in status.responders.iter_mut().flatten() {
                        responder.cancellation_acknowledged = true;
                    }
                    status
                });
                evacuations.push((number, ended));
            }
        }
        let pods = state.pods.iter().enumerate();
        let pods = pods.map(|(number, pod)| pod_of(config, number, pod.generation)).collect();
        Self { names, nodes: nodes.collect(), pods, evacuations }
    }

    /// The world as the plan takes it.
    pub(super) fn world<'a>(&'a self, config: &DrainConfig, state: &DrainState) -> DrainWorld<'a> {
        let there = |number: &usize| state.pods.get(*number).is_some_and(|pod| !pod.gone);
        let seen = (0..self.pods.len()).filter(there).filter_map(|number| {
            let node = *config.pods.get(number)?;
            let is_blind = config.flaw == Some(DrainFlaw::BlindToDeletedNodes);
            if is_blind && state.nodes.get(node)?.deleted {
                return None;
            }
            let of_pod = self.evacuations.iter().filter(|(pod, _)| *pod == number);
            Some(PodOnNode {
                node: self.names.get(node)?,
                pod: self.pods.get(number)?,
                evacuations: of_pod.map(|(_, evacuation)| evacuation).collect(),
                budgets: Vec::new(),
                unready: Vec::new(),
                asked_beside: None,
                node_silent_since: None,
                rejected: None,
            })
        });
        DrainWorld {
            nodes: self.nodes.iter().collect(),
            pods: seen.collect(),
            // They change numbers alone, which no law of the model reads.
            waiting: Vec::new(),
            entries: self.evacuations.iter().map(|(_, evacuation)| evacuation).collect(),
            rejected_nodes: Vec::new(),
            missing_daemon_sets: std::collections::BTreeSet::new(),
            attach_failures: Vec::new(),
        }
    }
}

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    #[expect(clippy::panic, reason = "the model's own objects are well-formed")]
    serde_json::from_value(value).unwrap_or_else(|error| panic!("{error}"))
}

/// The node of a state.
pub(super) fn node_of(number: usize, node: &NodeState) -> Node {
    let name = node_name(number);
    let annotations = json!({evacuation_api::CORDONED_BY_ANNOTATION: node.holders});
    let annotations = if node.holders.is_some() { annotations } else { json!({}) };
    parse(json!({
        "metadata": {"name": name, "uid": format!("{name}-{}", node.registration), "annotations": annotations},
        "spec": {"unschedulable": node.cordoned},
    }))
}

fn uid(pod: usize, generation: u8) -> String {
    format!("p{pod}-{generation}")
}

fn pod_of(config: &DrainConfig, number: usize, generation: u8) -> Pod {
    let name = format!("p{number}");
    let kind = if config.daemons.contains(&number) { "DaemonSet" } else { "ReplicaSet" };
    let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": "r", "uid": "1", "controller": true});
    parse(json!({
        "metadata": {"name": name, "namespace": "ns", "uid": uid(number, generation), "ownerReferences": [owner]},
        "spec": {"containers": []}, "status": {"phase": "Running"},
    }))
}

fn evacuation_of(
    config: &DrainConfig,
    (pod, generation): (usize, u8),
    state: &EvacuationState,
) -> Evacuation {
    let name = format!("p{pod}");
    let entries: Vec<Requester> = state.entries.iter().filter_map(|drain| entry(config, *drain)).collect();
    let time = "1970-01-01T00:00:00Z";
    let recorded: Vec<Value> = state
        .recorded
        .iter()
        .filter_map(|drain| entry(config, *drain))
        .map(|entry| json!({"owner": entry.owner, "name": entry.name, "user": "controller", "time": time}))
        .collect();
    let responder = if state.accepted { "Completed" } else { "Active" };
    parse(json!({
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"target": {"pod": {"name": name, "uid": uid(pod, generation)}}, "requesters": entries},
        "status": {
            "requesters": recorded,
            "responders": [{
                "name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 60,
                "state": responder, "activeTime": time,
            }],
            "eviction": {"attempts": 1, "inFlight": state.in_flight},
        },
    }))
}
