//! kubectl plugins: kubectl create evacuation, kubectl evacuate.
fn main() {}
