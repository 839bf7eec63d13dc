//! `kubectl evacuate status [NAME]`
//!
//! On a terminal the drains in progress are drawn until they have ended. Elsewhere, and with `-o`, the state
//! is printed once, or each change of it with `--watch`.

mod live;
mod text;

use std::io::IsTerminal;

use anyhow::Context;
use clap::{ArgAction, Args, ValueEnum};
use evacuation_api::{DrainConditionType, NodeEvacuation};
use futures::{StreamExt, pin_mut};
use kube::{Api, Client, ResourceExt, api::ListParams, runtime::watcher::Event};

use self::{
    live::Live,
    text::{details, table},
};
use crate::{
    Exit,
    connection::Connection,
    output::say,
    screen::{Lines, Screen},
    watching::{drains, is_refused},
};

/// Show drains: all of them in a table, or the nodes, the pods and the blockers of one.
///
/// On a terminal the command shows drains in progress live until they have ended. Ctrl-C ends only the
/// command.
#[derive(Args, Debug)]
pub struct Status {
    /// Name of the NodeEvacuation; all by default.
    #[arg(value_name = "NAME", value_parser = drain_name)]
    name: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum)]
    output: Option<Format>,
    /// Show changes, too; with a name until the drain has ended. The default on a terminal without -o.
    #[arg(short, long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    watch: Option<bool>,
    #[command(flatten)]
    connection: Connection,
}

/// Output format of drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The objects as JSON.
    Json,
    /// The objects as YAML.
    Yaml,
}

/// Returns a NodeEvacuation's name, which may be given as kubectl prints it.
pub(crate) fn drain_name(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        None => Ok(text.to_owned()),
        Some((resource, name)) if is_drain(resource) => Ok(name.to_owned()),
        Some((resource, _)) => Err(format!("only nodeevacuations have this status, not {resource}")),
    }
}

/// Returns true for a spelling of the resource of NodeEvacuations.
pub(crate) fn is_drain(resource: &str) -> bool {
    let resource = resource.split('.').next().unwrap_or_default();
    matches!(resource, "nodeevacuation" | "nodeevacuations" | "nodeevac")
}

impl Status {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// The drain does not exist, or drains cannot be read.
    pub async fn run(self) -> anyhow::Result<Exit> {
        let client = self.connection.client().await?;
        let screen = Screen::of(Lines::Output).filter(|_| self.output.is_none() && self.watch != Some(false));
        if let Some(screen) = screen {
            self.require(&client).await?;
            return Live::new(self.name, screen).run(&client).await;
        }
        if self.watch == Some(true) {
            return self.watch(client).await;
        }
        let api: Api<NodeEvacuation> = Api::all(client);
        if let Some(name) = &self.name {
            let drain = api.get(name).await;
            self.print(&drain.with_context(|| format!("nodeevacuation {name} cannot be read"))?)?;
            return Ok(Exit::Done);
        }
        let mut all = api.list(&ListParams::default()).await.context("nodeevacuations cannot be listed")?;
        all.items.sort_by_key(ResourceExt::name_any);
        match self.output {
            Some(format) => {
                let kind = format!("{}List", NodeEvacuation::KIND);
                let list = serde_json::json!({
                    "apiVersion": evacuation_api::api_version(), "kind": kind,
                    "metadata": all.metadata, "items": all.items,
                });
                say(render(&list, format)?)?;
            }
            None if all.items.is_empty() => say("no drains")?,
            None => {
                for line in table(&all.items, chrono::Utc::now()) {
                    say(line)?;
                }
            }
        }
        Ok(Exit::Done)
    }

    fn render(&self, drain: &NodeEvacuation) -> anyhow::Result<String> {
        match self.output {
            Some(format) => render(drain, format),
            None => Ok(details(drain, std::io::stdout().is_terminal())),
        }
    }

    fn print(&self, drain: &NodeEvacuation) -> anyhow::Result<()> {
        Ok(say(self.render(drain)?)?)
    }

    /// Prints each visible change.
    async fn watch(&self, client: Client) -> anyhow::Result<Exit> {
        self.require(&client).await?;
        let events = drains(client, self.name.as_deref());
        pin_mut!(events);
        let mut told = std::collections::BTreeMap::new();
        let mut allowed = false;
        while let Some(event) = events.next().await {
            let drain = match event {
                Ok(Event::InitApply(drain) | Event::Apply(drain)) => drain,
                Ok(Event::Delete(drain)) => {
                    say(format_args!("nodeevacuation {} is gone", drain.name_any()))?;
                    told.remove(&drain.name_any());
                    if self.name.is_some() {
                        break;
                    }
                    continue;
                }
                Ok(Event::Init | Event::InitDone) => {
                    allowed = true;
                    continue;
                }
                Err(error) if !allowed && is_refused(&error) => return Err(error.into()),
                Err(_) => continue,
            };
            let text = if self.name.is_some() || self.output.is_some() {
                self.render(&drain)?
            } else {
                let lines = table(std::slice::from_ref(&drain), chrono::Utc::now());
                let from = usize::from(!told.is_empty());
                lines.get(from..).unwrap_or_default().join("\n")
            };
            // The age of a drain is no change of it.
            let state = (drain.spec.paused, drain.status.clone(), drain.metadata.deletion_timestamp.clone());
            if told.insert(drain.name_any(), state.clone()) != Some(state) {
                say(text)?;
            }
            let finished = drain.status.is_some_and(|status| status.is_true(DrainConditionType::Finished));
            if self.name.is_some() && finished {
                break;
            }
        }
        Ok(Exit::Done)
    }

    /// Fails for a drain that does not exist, which a watch would wait for.
    async fn require(&self, client: &Client) -> anyhow::Result<()> {
        let Some(name) = &self.name else { return Ok(()) };
        let api: Api<NodeEvacuation> = Api::all(client.clone());
        api.get(name).await.with_context(|| format!("nodeevacuation {name} cannot be read"))?;
        Ok(())
    }
}

fn render(object: &impl serde::Serialize, format: Format) -> anyhow::Result<String> {
    Ok(match format {
        Format::Json => serde_json::to_string_pretty(object)?,
        Format::Yaml => format!("---\n{}", machinery_merge::to_yaml(object)?.trim_end()),
    })
}
