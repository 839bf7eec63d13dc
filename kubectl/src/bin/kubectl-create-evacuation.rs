//! `kubectl create evacuation POD...`: ask pods to move.

use kubectl_evacuate::{create::Create, run};

fn main() -> std::process::ExitCode {
    let interrupted = "the evacuations continue, see kubectl get evacuations; delete one to withdraw it";
    run(Create::run, interrupted)
}
