//! What holds for every Evacuation at every time: for tests and the model checker.

use evacuation_api::Evacuation;

/// The invariants that the Evacuation breaks, in words. Empty for whatever the functions of this crate made.
pub fn violations(evacuation: &Evacuation) -> Vec<String> {
    let _ = evacuation;
    unimplemented!()
}
