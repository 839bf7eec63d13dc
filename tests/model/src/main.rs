//! Walks every world, or the one that is named, and prints the states seen and the laws that hold.

use std::time::Duration;

use anyhow::{bail, ensure};
use evacuation_gateway::fuzzing::GatewayLaw;
use evacuation_model::{
    DrainLaw, Law, drain_worlds, explore, explore_drains, explore_gates, gate_worlds, worlds,
};

/// Minimum number of states of all worlds together.
const STATES: usize = 1_000_000;

fn main() -> anyhow::Result<()> {
    let only = std::env::args().nth(1);
    let mut worlds = worlds();
    if let Some(only) = &only {
        worlds.retain(|world| world.name == only);
        let drains = drain_worlds().into_iter().map(|world| world.name);
        let known = drains.chain(gate_worlds().into_iter().map(|world| world.name)).any(|name| name == only);
        ensure!(!worlds.is_empty() || known, "there is no world {only:?}");
    }
    let (mut states, mut broken) = (0, false);
    for world in worlds {
        let (name, about) = (world.name, world.about);
        let found = explore(world);
        states += found.states;
        print_walk(name, about, found.states, found.depth, found.elapsed);
        for counterexample in &found.counterexamples {
            broken = true;
            println!("{counterexample}");
        }
    }
    for world in
        drain_worlds().into_iter().filter(|world| only.as_ref().is_none_or(|only| world.name == only))
    {
        let found = explore_drains(world);
        print_walk(world.name, world.about, found.states, found.depth, found.elapsed);
        if let Some(counterexample) = found.counterexample {
            broken = true;
            println!("{counterexample}");
        }
    }
    for world in gate_worlds().into_iter().filter(|world| only.as_ref().is_none_or(|only| world.name == only))
    {
        let found = explore_gates(world);
        print_walk(world.name, world.about, found.states, found.depth, found.elapsed);
        if let Some((law, how)) = found.counterexample {
            broken = true;
            println!("broken: {}\n{how}", law.words());
        }
    }
    if broken {
        bail!("a law is broken");
    }
    println!("\n{states} states, in each of which hold:");
    for law in Law::ALL {
        println!("  {}", law.words());
    }
    println!("and in each state of the drains:");
    for law in DrainLaw::ALL {
        println!("  {}", law.words());
    }
    println!("and in each state of the gateway:");
    for law in GatewayLaw::ALL {
        println!("  {}", law.words());
    }
    ensure!(only.is_some() || states >= STATES, "fewer than {STATES} states were seen");
    Ok(())
}

/// Prints the size of the walk of one world.
fn print_walk(name: &str, about: &str, states: usize, depth: usize, elapsed: Duration) {
    println!(
        "{name:<10} {states:>9} states, {depth:>2} steps deep, {:>6.1} s: {about}",
        elapsed.as_secs_f64()
    );
}
