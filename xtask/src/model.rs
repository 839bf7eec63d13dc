//! `cargo xtask model`

use clap::Args;

use crate::command::{cargo, run};

/// Walk every state of the model of the protocol.
#[derive(Args)]
pub(crate) struct Model {
    /// Only the world of that name.
    world: Option<String>,
}

impl Model {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        // The development profile optimises what takes the time.
        let mut model = cargo()?;
        model.args(["run", "--quiet", "--package", "evacuation-model", "--"]);
        run(model.args(self.world))
    }
}
