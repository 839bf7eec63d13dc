//! `controlplane binaries` and `controlplane up`: the control plane by hand.

use clap::{Parser, Subcommand};
use controlplane::{Binaries, ControlPlane};

/// Starts a real Kubernetes control plane on loopback.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Finds the programs, builds those that are missing, and prints a folder that holds them all.
    Binaries,
    /// Starts a control plane and runs it until Ctrl-C.
    Up {
        /// The number of nodes.
        #[arg(long, default_value_t = 3)]
        nodes: usize,
        /// Leave it running instead, and print how to stop it.
        #[arg(long)]
        keep: bool,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Action::Binaries => {
            let binaries = tokio::task::spawn_blocking(Binaries::find_or_build).await??;
            println!("{}", binaries.folder()?.display());
        }
        Action::Up { nodes, keep } => {
            let control_plane = ControlPlane::builder().nodes(nodes).start().await?;
            println!("export KUBECONFIG={}", control_plane.kubeconfig().display());
            println!("# logs: {}", control_plane.logs().display());
            if keep {
                println!("# stop it with: sh {}", control_plane.leave_running(&[])?.display());
            } else {
                println!("# Ctrl-C stops it");
                tokio::signal::ctrl_c().await?;
                control_plane.stop().await?;
            }
        }
    }
    Ok(())
}
