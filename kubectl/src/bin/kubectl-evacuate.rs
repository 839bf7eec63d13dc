//! `kubectl evacuate node NODE`: drain nodes by asking; show, pause and cancel drains.
//! `kubectl evacuate why POD`: show why a pod has not moved. `kubectl evacuate lint -f FILE`: check
//! manifests.

use clap::{Parser, Subcommand};
use kubectl_evacuate::{
    cancel::Cancel,
    lint::Lint,
    node::Node,
    pause::{Pause, Resume},
    run,
    status::Status,
    why::Why,
};

/// Drain by asking: each pod is asked to move and answers. And check manifests for it.
#[derive(Parser)]
#[command(name = "kubectl evacuate", bin_name = "kubectl evacuate", version)]
struct Evacuate {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Node(Box<Node>),
    Status(Status),
    Pause(Pause),
    Resume(Resume),
    Cancel(Cancel),
    Why(Why),
    Lint(Lint),
}

fn main() -> std::process::ExitCode {
    let carry_out = async |command: Evacuate| match command.task {
        Task::Node(node) => node.run().await,
        Task::Status(status) => status.run().await,
        Task::Pause(pause) => pause.run().await,
        Task::Resume(resume) => resume.run().await,
        Task::Cancel(cancel) => cancel.run().await,
        Task::Why(why) => why.run().await,
        Task::Lint(lint) => lint.run(),
    };
    run(carry_out, "a drain that was created continues, see kubectl evacuate status")
}
