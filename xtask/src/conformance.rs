//! `cargo xtask conformance`

use clap::Args;

use crate::{
    build::build_control_plane,
    command::{cargo, run},
    prerequisites,
};

/// Number of sequences of the long run.
const LONG: u64 = 2000;

/// Compare the machinery's example kind with a custom resource of the same schema.
#[derive(Args)]
pub(crate) struct Conformance {
    /// Send 2,000 sequences of requests, and fail when a listed difference does not occur.
    #[arg(long)]
    long: bool,
    /// Seed of the first sequence.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of sequences, by default 100.
    #[arg(long)]
    sequences: Option<u64>,
}

impl Conformance {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        prerequisites::ensure()?;
        let control_plane = build_control_plane()?;
        let mut test = cargo()?;
        test.args(["test", "--quiet", "--workspace", "--test", "conformance", "--", "--nocapture"])
            .env("CONTROLPLANE_BIN", &control_plane)
            .env("CONFORMANCE_SEED", self.seed.to_string());
        if self.long {
            test.env("CONFORMANCE_LONG", "1");
        }
        if let Some(sequences) = self.sequences.or(self.long.then_some(LONG)) {
            test.env("CONFORMANCE_SEQUENCES", sequences.to_string());
        }
        run(&mut test)
    }
}
