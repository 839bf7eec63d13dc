//! Explores every world and prints what was found.

use evacuation_model::{explore, worlds};

fn main() {
    for world in worlds() {
        let name = world.name;
        let found = explore(world);
        println!("{name}: {} states, depth {}, {:?}", found.states, found.depth, found.elapsed);
        for c in found.counterexamples { println!("{c}"); }
    }
}
