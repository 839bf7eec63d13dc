//! Every law holds in every world. `cargo xtask model` prints what is walked.

#![allow(clippy::panic)]

use evacuation_model::{explore, worlds};

/// Minimum number of states of all worlds together.
const STATES: usize = 1_000_000;

#[test]
fn every_law_holds_in_every_state_of_every_world() {
    let mut states = 0;
    for world in worlds() {
        let name = world.name;
        let found = explore(world);
        if let Some(counterexample) = found.counterexamples.first() {
            panic!("in {name}: {counterexample}");
        }
        states += found.states;
    }
    assert!(states > STATES, "only {states} states were seen");
}
