//! Drains, model-checked: two drains over shared nodes, whose plan is the function that runs.
//!
//! The model adds the world around the plan: acts that are carried out late or never, a leader that is
//! followed by another between any two acts, people who cordon and uncordon, users who delete their drains,
//! apps that accept, and an evictor that keeps the fence. The negotiation itself is walked by the other
//! model; here an Evacuation is reduced to what a drain sees of it.

mod law;
mod model;
mod objects;
mod state;
mod step;

use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

pub use law::DrainLaw;
pub use model::{DrainAction, Drains};
pub use state::DrainState;

/// A world of drains.
#[derive(Clone, Copy, Debug)]
pub struct DrainConfig {
    /// The world's name.
    pub name: &'static str,
    /// The world in words.
    pub about: &'static str,
    /// The nodes of each drain, by number.
    pub drains: [&'static [usize]; 2],
    /// The node of each pod.
    pub pods: &'static [usize],
    /// Pods that belong to a DaemonSet, by number. It creates another one in the place of each, and the
    /// drains ask such pods last.
    pub daemons: &'static [usize],
    /// True when the first drain has a deadline.
    pub deadline: bool,
    /// Maximum number of cordons and uncordons by people.
    pub people: u8,
    /// Maximum number of drains that are deleted.
    pub deletions: u8,
    /// Maximum number of changes of the leader.
    pub leaders: u8,
    /// True when the first drain drains one node at a time.
    pub in_turn: bool,
    /// Maximum number of times that a node is deleted or registers again.
    pub registrations: u8,
    /// Maximum number of times that the first drain is paused or goes on.
    pub pauses: u8,
    /// A rule that is not kept: a walk must then find a broken law.
    pub flaw: Option<DrainFlaw>,
}

/// A rule that is not kept in a world of drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainFlaw {
    /// A plan does not see the pods of nodes that are no longer there.
    BlindToDeletedNodes,
    /// A plan does not see that its drain is paused.
    BlindToPauses,
}

/// Every world of drains.
pub fn drain_worlds() -> Vec<DrainConfig> {
    let shared = DrainConfig {
        name: "shared",
        about: "two drains of one node, both deleted at any time",
        drains: [&[0], &[0]],
        pods: &[0],
        daemons: &[],
        deadline: false,
        people: 0,
        deletions: 2,
        leaders: 0,
        in_turn: false,
        registrations: 0,
        pauses: 0,
        flaw: None,
    };
    let alone = DrainConfig { drains: [&[0], &[]], deletions: 0, ..shared };
    vec![
        shared,
        DrainConfig {
            name: "person",
            about: "two drains of one node, one deleted, and a person who cordons and uncordons it",
            people: 2,
            deletions: 1,
            pods: &[],
            ..shared
        },
        DrainConfig {
            name: "late",
            about: "two drains of one node, one deleted, and late requests of an earlier leader",
            deletions: 1,
            leaders: 1,
            ..shared
        },
        DrainConfig {
            name: "overlap",
            about: "a drain of one node with a deadline, and one of two nodes, deleted at any time",
            drains: [&[0], &[0, 1]],
            deadline: true,
            deletions: 1,
            ..shared
        },
        DrainConfig {
            name: "last",
            about: "two drains of one node with a pod of a DaemonSet beside another, one deleted",
            pods: &[0, 0],
            daemons: &[1],
            deletions: 1,
            ..shared
        },
        DrainConfig {
            name: "last-late",
            about: "two drains of one node with a pod of a DaemonSet, and late requests of an earlier leader",
            daemons: &[0],
            deadline: true,
            deletions: 0,
            leaders: 1,
            ..shared
        },
        DrainConfig {
            name: "waiting",
            about: "a drain of one node at a time, and nodes that are deleted and register again in every phase",
            drains: [&[0, 1], &[]],
            pods: &[0, 1],
            in_turn: true,
            registrations: 3,
            ..alone
        },
        DrainConfig {
            name: "paused",
            about: "a drain that is paused and goes on, while its node is deleted and registers again",
            deadline: true,
            registrations: 2,
            pauses: 3,
            ..alone
        },
    ]
}

/// The result of a walk through a world of drains.
#[derive(Debug)]
pub struct DrainExploration {
    /// The number of distinct states.
    pub states: usize,
    /// The number of steps of the longest path.
    pub depth: usize,
    /// The duration of the walk.
    pub elapsed: Duration,
    /// The first law that does not hold, and a shortest way to where it is broken.
    pub counterexample: Option<String>,
}

/// Walks a world until every state was seen, or a law is broken.
pub fn explore_drains(config: DrainConfig) -> DrainExploration {
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let checker = Drains::new(config)
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let counterexample = checker.discoveries().into_iter().next().map(|(words, path)| {
        let steps = path.into_vec().into_iter().map(|(state, action)| format!("{state:?}\n  {action:?}"));
        format!("broken: {words}\n{}", steps.collect::<Vec<_>>().join("\n"))
    });
    DrainExploration {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        elapsed: began.elapsed(),
        counterexample,
    }
}
