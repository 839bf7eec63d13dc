//! `kubectl create evacuation POD...`: ask pods to move.

use kubectl_evacuate::{create::Create, run};

fn main() -> std::process::ExitCode {
    run(Create::run)
}
