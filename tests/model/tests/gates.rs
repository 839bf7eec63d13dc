//! The gateway's laws hold in every world of it, and each rule behind them is needed.

#![allow(clippy::panic, clippy::unwrap_used)]

use evacuation_gateway::fuzzing::{GatewayFlaw, GatewayLaw, GatewaySettings};
use evacuation_model::{GateConfig, explore_gates, gate_worlds};

/// Minimum number of states of all worlds together.
const STATES: usize = 5_000;

#[test]
fn every_law_of_the_gateway_holds_in_every_state_of_every_world() {
    let mut states = 0;
    for world in gate_worlds() {
        let name = world.name;
        let found = explore_gates(world);
        if let Some((law, how)) = found.counterexample {
            panic!("in {name}: {}\n{how}", law.words());
        }
        states += found.states;
    }
    assert!(states > STATES, "only {states} states were seen");
}

/// Walks that world with a flaw and expects that law to be broken.
fn finds(world: &str, flaw: GatewayFlaw, law: GatewayLaw) {
    let world = gate_worlds().into_iter().find(|known| known.name == world).unwrap();
    let settings = GatewaySettings { flaw: Some(flaw), ..world.settings };
    let found = explore_gates(GateConfig { settings, ..world });
    let broken = found.counterexample.map(|(law, _)| law);
    assert_eq!(broken, Some(law), "in {} states", found.states);
}

#[test]
fn a_gateway_that_opens_at_once_in_an_outage_lets_calls_pass_while_an_answer_holds() {
    finds("outages", GatewayFlaw::HoldsNothing, GatewayLaw::Holds);
}

#[test]
fn a_gateway_that_does_not_compare_nodes_says_of_a_running_pod_that_it_is_gone() {
    finds("successors", GatewayFlaw::BlindToNodes, GatewayLaw::Gone);
}

#[test]
fn a_gateway_that_does_not_look_at_the_lease_makes_callers_wait_without_an_end() {
    finds("leaderless", GatewayFlaw::NoLease, GatewayLaw::Ends);
}

#[test]
fn a_gateway_that_takes_a_rejected_question_for_an_outage_lets_a_call_pass_unasked() {
    finds("rejections", GatewayFlaw::TakesRejectionsForOutages, GatewayLaw::Asked);
}
