//! Walking a world to its end.

use std::{
    num::NonZeroUsize,
    thread::available_parallelism,
    time::{Duration, Instant},
};

use stateright::{Checker, HasDiscoveries, Model};

use crate::{Action, Config, Law, Negotiation, State};

/// The result of a walk through a world.
#[derive(Debug)]
pub struct Exploration {
    /// The number of distinct states.
    pub states: usize,
    /// The number of steps of the longest path.
    pub depth: usize,
    /// The duration of the walk.
    pub elapsed: Duration,
    /// A law that does not hold, and a shortest way to where it is broken.
    pub counterexamples: Vec<Counterexample>,
}

/// A law that does not hold, and a shortest way to where it is broken.
#[derive(Debug)]
pub struct Counterexample {
    /// The law.
    pub law: Law,
    /// Each step, and what it led to.
    pub steps: Vec<(Option<Action>, State)>,
}

/// Walks a world until every state was seen, or a law is broken.
pub fn explore(config: Config) -> Exploration {
    let began = Instant::now();
    let threads = available_parallelism().map_or(1, NonZeroUsize::get);
    let checker = Negotiation::new(config)
        .checker()
        .threads(threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let counterexamples = checker.discoveries().into_iter().filter_map(|(words, path)| {
        let law = Law::ALL.iter().copied().find(|law| law.words() == words)?;
        let mut action = None;
        let mut steps = Vec::new();
        for (state, next) in path.into_vec() {
            steps.push((action, state));
            action = next;
        }
        Some(Counterexample { law, steps })
    });
    Exploration {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        counterexamples: counterexamples.collect(),
        elapsed: began.elapsed(),
    }
}

impl std::fmt::Display for Counterexample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "broken: {}", self.law.words())?;
        for (action, state) in &self.steps {
            if let Some(action) = action {
                writeln!(f, "{action:?}")?;
            }
            for object in &state.objects {
                writeln!(f, "    {} s: {:?}, {:?}", state.now, object.stored, state.pod)?;
            }
        }
        Ok(())
    }
}
