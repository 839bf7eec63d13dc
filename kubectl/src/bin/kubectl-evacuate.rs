//! `kubectl evacuate node NODE`: drain nodes by asking; show, change, pause and cancel drains.
//! `kubectl evacuate why POD`: show why a pod has not moved. `kubectl evacuate answer`: answer in place of a
//! responder. `kubectl evacuate check`: check the installation. `kubectl evacuate lint -f FILE`: check
//! manifests.

use kubectl_evacuate::{Evacuate, run};

fn main() -> std::process::ExitCode {
    run(Evacuate::run, "a drain that was created continues, see kubectl evacuate status")
}
