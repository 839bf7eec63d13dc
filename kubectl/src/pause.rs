//! `kubectl evacuate pause NAME|NODE` and `kubectl evacuate resume NAME|NODE`

use anyhow::{Context, bail};
use clap::Args;
use evacuation_api::NodeEvacuation;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    Exit,
    complaint::with_rest,
    connection::Connection,
    drain_ref::{DrainRef, drain_ref, has_ended},
    output::say,
};

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
    /// Names of NodeEvacuations, or of nodes that are drained alone, also as node/NAME.
    #[arg(value_name = "NAME|NODE", required = true, value_parser = drain_ref)]
    names: Vec<DrainRef>,
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
        let client = self.connection.client().await?;
        let api: Api<NodeEvacuation> = Api::all(client.clone());
        let (patch, word) = (Patch::Merge(json!({"spec": {"paused": paused}})), word(paused));
        for (at, name) in self.names.iter().enumerate() {
            let changed = set(&api, &client, name, &patch, word).await;
            changed.map_err(|error| with_rest(error, word, self.names.iter().skip(at + 1)))?;
        }
        Ok(Exit::Done)
    }
}

async fn set(
    api: &Api<NodeEvacuation>,
    client: &Client,
    name: &DrainRef,
    patch: &Patch<Value>,
    word: &str,
) -> anyhow::Result<()> {
    for drain in name.alone(client).await? {
        let name = drain.name_any();
        if has_ended(&drain) {
            bail!("nodeevacuation {name} cannot be {word}: it has ended");
        }
        let changed = api.patch(&name, &PatchParams::default(), patch).await;
        changed.with_context(|| format!("nodeevacuation {name} cannot be {word}"))?;
        say(format_args!("nodeevacuation {name} {word}"))?;
    }
    Ok(())
}

fn word(paused: bool) -> &'static str {
    if paused { "paused" } else { "resumed" }
}
