//! `kubectl evacuate node NODE`: drain a node by asking. `kubectl evacuate lint -f FILE`: check manifests.

use clap::{Parser, Subcommand};
use kubectl_evacuate::{lint::Lint, node::Node, run};

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
    Lint(Lint),
}

fn main() -> std::process::ExitCode {
    run(async |command: Evacuate| match command.task {
        Task::Node(node) => node.run().await,
        Task::Lint(lint) => lint.run(),
    })
}
