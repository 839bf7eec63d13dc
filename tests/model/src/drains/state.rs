//! The state of a world of drains.

use std::collections::BTreeSet;

use super::{DrainConfig, DrainLaw};

/// The state of a world of drains.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DrainState {
    /// Seconds since the drains were created.
    pub(super) now: i64,
    pub(super) nodes: Vec<NodeState>,
    pub(super) drains: Vec<Option<DrainObject>>,
    pub(super) pods: Vec<PodState>,
    /// Acts that were planned and neither carried out nor lost.
    pub(super) pending: Vec<PendingAct>,
    /// Events that may still happen.
    pub(super) left: Left,
    /// Laws that a step broke.
    pub(super) broken: BTreeSet<DrainLaw>,
}

/// Events of a world that may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Left {
    /// Cordons and uncordons by people.
    pub(super) people: u8,
    /// Deletions of drains.
    pub(super) deletions: u8,
    /// Changes of the leader.
    pub(super) leaders: u8,
    /// Deletions and registrations of nodes.
    pub(super) registrations: u8,
    /// Pauses, and their ends.
    pub(super) pauses: u8,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
#[allow(clippy::struct_excessive_bools)] // Each is a state of its own.
pub(super) struct NodeState {
    /// True while there is no node of this name.
    pub(super) deleted: bool,
    /// Number of nodes that had the name before: the UID.
    pub(super) registration: u8,
    pub(super) cordoned: bool,
    /// The annotation.
    pub(super) holders: Option<String>,
    /// True while a person keeps it cordoned: a person set the cordon, and nobody uncordoned it since.
    pub(super) by_person: bool,
    /// True once it, or a node of its name before, was cordoned: a question can be under way when another
    /// node registers.
    pub(super) was_cordoned: bool,
}

/// A drain as the server stores it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct DrainObject {
    /// The status as JSON.
    pub(super) status: String,
    pub(super) deleted: bool,
    pub(super) paused: bool,
}

/// A pod and the Evacuation of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct PodState {
    pub(super) gone: bool,
    pub(super) evacuation: Option<EvacuationState>,
    /// Drains whose entry an earlier, canceled Evacuation held.
    pub(super) canceled_for: BTreeSet<usize>,
    /// Number of pods of its DaemonSet that went before it.
    pub(super) generation: u8,
    /// Drains that have asked it or one before it, with the generation.
    pub(super) asked: BTreeSet<(usize, u8)>,
}

/// What a drain sees of an active Evacuation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct EvacuationState {
    /// Drains whose entry it holds.
    pub(super) entries: BTreeSet<usize>,
    /// Drains whose entry it has held.
    pub(super) recorded: BTreeSet<usize>,
    /// True once the app accepted.
    pub(super) accepted: bool,
    /// True while the outcome of an eviction is not recorded.
    pub(super) in_flight: bool,
}

/// An act under way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PendingAct {
    pub(super) drain: usize,
    pub(super) act: Act,
    /// True once the object that it was decided on has changed: its precondition fails.
    pub(super) stale: bool,
    /// True once another process leads than the one that began it.
    pub(super) late: bool,
}

/// An act, by the number of its node or pod. A question has the pod's UID: its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Act {
    Cordon(usize),
    Release(usize),
    Ask(usize, u8),
    Join(usize),
    Withdraw(usize),
    End,
}

impl DrainState {
    /// The drains were just created.
    pub(super) fn initial(config: &DrainConfig) -> Self {
        let nodes = config.drains.iter().flat_map(|nodes| nodes.iter()).max().map_or(0, |most| most + 1);
        let status = r#"{"requester":{"user":"alice","time":"1970-01-01T00:00:00Z"},"pods":{}}"#;
        let drain = DrainObject { status: status.to_owned(), deleted: false, paused: false };
        Self {
            now: 0,
            nodes: vec![NodeState::default(); nodes],
            drains: vec![Some(drain); config.drains.len()],
            pods: vec![PodState::default(); config.pods.len()],
            pending: Vec::new(),
            left: Left {
                people: config.people,
                deletions: config.deletions,
                leaders: config.leaders,
                registrations: config.registrations,
                pauses: config.pauses,
            },
            broken: BTreeSet::new(),
        }
    }
}
