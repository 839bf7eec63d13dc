//! The gateway, model-checked: its judge, in every order of calls, answers and outages that a small world
//! allows.
//!
//! The world around the judge is the fuzzer's ([`evacuation_gateway::fuzzing`]): callers that retry, a cache
//! that an outage leaves behind, an app that answers, a controller that is away, successors under one name.
//! An oracle that reads no status notes each broken
//! [`GatewayLaw`](evacuation_gateway::fuzzing::GatewayLaw).

mod model;
mod worlds;

use std::{
    num::NonZeroUsize,
    thread::available_parallelism,
    time::{Duration, Instant},
};

use evacuation_gateway::fuzzing::GatewayLaw;
use stateright::{Checker, HasDiscoveries, Model};

pub use self::{
    model::{GateAction, GateState, Gates},
    worlds::{GateConfig, gate_worlds},
};

/// The result of a walk through a world of the gateway.
#[derive(Debug)]
pub struct GateExploration {
    /// The number of distinct states.
    pub states: usize,
    /// The number of steps of the longest path.
    pub depth: usize,
    /// The duration of the walk.
    pub elapsed: Duration,
    /// A law that does not hold, and a shortest way to where it is broken in words.
    pub counterexample: Option<(GatewayLaw, String)>,
}

/// Walks a world of the gateway until every state was seen, or a law is broken.
pub fn explore_gates(config: GateConfig) -> GateExploration {
    let began = Instant::now();
    let threads = available_parallelism().map_or(1, NonZeroUsize::get);
    let checker = Gates::new(config)
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let counterexample = checker.discoveries().into_values().find_map(|path| {
        let path = path.into_vec();
        let (law, how) = path.last()?.0.world.broken().cloned()?;
        let step = |(state, action): &(GateState, Option<GateAction>)| {
            let action = action.map_or(String::new(), |action| format!("\n{action:?}"));
            format!("    {}{action}", state.world.line())
        };
        let steps: Vec<_> = path.iter().map(step).collect();
        Some((law, format!("{}\n{how}", steps.join("\n"))))
    });
    GateExploration {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        elapsed: began.elapsed(),
        counterexample,
    }
}
