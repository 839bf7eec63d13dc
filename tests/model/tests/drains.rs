//! The laws of drains hold in every world of them, and each rule behind them is needed.

#![allow(clippy::panic, clippy::unwrap_used)]

use evacuation_model::{DrainConfig, DrainFlaw, DrainLaw, drain_worlds, explore_drains};

#[test]
fn every_law_of_drains_holds_in_every_state_of_every_world() {
    for world in drain_worlds() {
        let found = explore_drains(world);
        if let Some(counterexample) = found.counterexample {
            panic!("in {}: {counterexample}", world.name);
        }
    }
}

/// Walks that world with a flaw and expects that law to be broken.
fn finds(world: &str, flaw: DrainFlaw, law: DrainLaw) {
    let world = drain_worlds().into_iter().find(|known| known.name == world).unwrap();
    let found = explore_drains(DrainConfig { flaw: Some(flaw), ..world });
    let broken = found.counterexample.unwrap();
    assert!(broken.starts_with(&format!("broken: {}", law.words())), "{broken}");
}

#[test]
fn without_a_look_at_the_pods_of_deleted_nodes_a_waiting_node_is_gone_while_its_pods_run() {
    finds("waiting", DrainFlaw::BlindToDeletedNodes, DrainLaw::Drained);
}

#[test]
fn a_drain_that_does_not_see_its_pause_asks_and_ends() {
    finds("paused", DrainFlaw::BlindToPauses, DrainLaw::Paused);
}
