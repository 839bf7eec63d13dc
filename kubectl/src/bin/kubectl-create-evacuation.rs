//! `kubectl create evacuation POD...`: ask pods to move.

use clap::Parser;
use kubectl_evacuate::{create::Create, run};

fn main() -> std::process::ExitCode {
    let command = Create::parse();
    run(command.run())
}
