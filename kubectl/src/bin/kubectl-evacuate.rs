//! `kubectl evacuate node NODE`: drain a node by asking.

use clap::{Parser, Subcommand};
use kubectl_evacuate::{node::Node, run};

/// Drain by asking: each pod is asked to move and answers.
#[derive(Parser)]
#[command(name = "kubectl evacuate", bin_name = "kubectl evacuate", version)]
struct Evacuate {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Node(Node),
}

fn main() -> std::process::ExitCode {
    run(|command: Evacuate| match command.what {
        What::Node(node) => node.run(),
    })
}
