//! The project's commands: demo, test, bench, generate.
fn main() {}
