//! Every law holds in worlds that are small enough for a test. `cargo xtask model` walks them all.

#![allow(clippy::panic)]

use evacuation_model::{explore, worlds};

#[test]
fn every_law_holds_in_every_state_of_the_small_worlds() {
    let mut states = 0;
    for world in worlds().into_iter().filter(|world| !world.large) {
        let name = world.name;
        let found = explore(world);
        if let Some(counterexample) = found.counterexamples.first() {
            panic!("in {name}: {counterexample}");
        }
        states += found.states;
    }
    assert!(states > 100_000, "only {states} states were seen");
}
