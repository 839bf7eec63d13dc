//! `kubectl evacuate pause NAME` and `kubectl evacuate resume NAME`

use anyhow::Context;
use clap::Args;
use evacuation_api::NodeEvacuation;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{Exit, connection::Connection, output::say, status::drain_name};

/// Pause drains: no further node is begun, and no further pod is asked. Pods that were asked still move.
#[derive(Args, Debug)]
pub struct Pause {
    #[command(flatten)]
    drains: Drains,
}

/// Resume drains that are paused.
#[derive(Args, Debug)]
pub struct Resume {
    #[command(flatten)]
    drains: Drains,
}

#[derive(Args, Debug)]
struct Drains {
    /// Names of NodeEvacuations.
    #[arg(value_name = "NAME", required = true, value_parser = drain_name)]
    names: Vec<String>,
    #[command(flatten)]
    connection: Connection,
}

impl Pause {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// A drain does not exist, has ended, or may not be changed.
    pub async fn run(self) -> anyhow::Result<Exit> {
        self.drains.set(true).await
    }
}

impl Resume {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// A drain does not exist, has ended, or may not be changed.
    pub async fn run(self) -> anyhow::Result<Exit> {
        self.drains.set(false).await
    }
}

impl Drains {
    async fn set(&self, paused: bool) -> anyhow::Result<Exit> {
        let api: Api<NodeEvacuation> = Api::all(self.connection.client().await?);
        let (patch, word) = (Patch::Merge(json!({"spec": {"paused": paused}})), word(paused));
        for name in &self.names {
            let changed = api.patch(name, &PatchParams::default(), &patch).await;
            changed.with_context(|| format!("nodeevacuation {name} cannot be {word}"))?;
            say(format_args!("nodeevacuation {name} {word}"))?;
        }
        Ok(Exit::Done)
    }
}

fn word(paused: bool) -> &'static str {
    if paused { "paused" } else { "resumed" }
}
