//! `kubectl evacuate status [NAME|NODE]`
//!
//! On a terminal the drains in progress are drawn until they have ended. Elsewhere, and with `-o`, the state
//! is printed once, or each change of it with `--watch`.

mod listed;
mod live;
mod text;

use std::io::IsTerminal;

use anyhow::Context;
use clap::{ArgAction, Args};
use evacuation_api::{Evacuation, NodeEvacuation};
use futures::{StreamExt, pin_mut};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{Api, Client, ResourceExt, runtime::watcher::Event};

use self::{
    live::Live,
    text::{Manner, details, table},
};
use crate::{
    Exit,
    connection::Connection,
    drain_ref::{DrainRef, drain_ref, has_ended},
    entry::has_entry,
    listing::readable,
    moment::Now,
    output::{View, drain_list, drain_resource, say, tell},
    screen::{Lines, Screen},
    tracked::Tracked,
    watching::{drains, is_final, is_unreadable},
};

/// Show drains: all of them in a table, or the nodes, the pods and the blockers of one.
///
/// On a terminal the command shows drains in progress live until they have ended. Ctrl-C ends only the
/// command.
#[derive(Args, Debug)]
pub struct Status {
    /// Name of a NodeEvacuation, or of a node, also as node/NAME; all by default.
    #[arg(value_name = "NAME|NODE", value_parser = drain_ref)]
    name: Option<DrainRef>,
    /// Output format. JSON and YAML have the object, or a list of objects.
    #[arg(short, long, value_enum)]
    output: Option<View>,
    /// Show changes, too; with a name until the drain has ended. The default on a terminal without -o.
    #[arg(short, long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    watch: Option<bool>,
    #[command(flatten)]
    connection: Connection,
}

impl Status {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// The drain does not exist, or drains cannot be read.
    pub async fn run(self) -> anyhow::Result<Exit> {
        let client = self.connection.client().await?;
        let found = match &self.name {
            Some(name) => Some(name.current(&client).await?),
            None => None,
        };
        let names: Vec<String> = found.iter().flatten().map(ResourceExt::name_any).collect();
        let screen = Screen::of(Lines::Output).filter(|_| self.output.is_none() && self.watch != Some(false));
        if let Some(screen) = screen {
            let all = names.is_empty();
            match Live::new(names.clone(), screen, self.connection.outages()).run(&client).await {
                // The others are printed once.
                Err(error) if all && error.downcast_ref().is_some_and(is_unreadable) => {}
                ended => return ended,
            }
        }
        if self.watch == Some(true) {
            return self.watch(client, names).await;
        }
        let (drains, metadata) = if let Some(found) = found {
            (found, ListMeta::default())
        } else {
            let api: Api<NodeEvacuation> = Api::all(client.clone());
            let all = readable(&api).await.context("nodeevacuations cannot be listed")?;
            let mut drains = all.items;
            drains.sort_by_key(ResourceExt::name_any);
            (drains, all.metadata)
        };
        let resources: Vec<String> = drains.iter().map(drain_resource).collect();
        let rendered = match (self.output, drains.as_slice()) {
            (None, _) => None,
            (Some(view), [drain]) if self.name.is_some() => view.render(drain, &resources)?,
            (Some(view), drains) => view.render(&drain_list(drains, &metadata)?, &resources)?,
        };
        match rendered {
            Some(text) if text.is_empty() => {}
            Some(text) => say(text)?,
            None => self.print(&client, &drains).await?,
        }
        Ok(Exit::Done)
    }

    /// Prints drains as text.
    async fn print(&self, client: &Client, drains: &[NodeEvacuation]) -> anyhow::Result<()> {
        // Without the right to list them the rest still helps.
        let evacuations = match &self.name {
            Some(_) => readable(&Api::<Evacuation>::all(client.clone())).await.ok(),
            None => None,
        };
        let evacuations = evacuations.map(|all| all.items).unwrap_or_default();
        let now = Now::of(self.connection.outages().is_led());
        if self.name.is_some() {
            return Ok(drains.iter().try_for_each(|drain| tell(self.page(drain, &evacuations, now)))?);
        }
        if drains.is_empty() {
            return Ok(tell("no drains")?);
        }
        Ok(table(drains, self.is_wide(), now).iter().try_for_each(tell)?)
    }

    fn page(&self, drain: &NodeEvacuation, evacuations: &[Evacuation], now: Now) -> String {
        let pods = evacuations.iter().filter(|evacuation| has_entry(evacuation, drain));
        let pods: Vec<_> = pods.map(Tracked::of).collect();
        let manner = Manner { bars: std::io::stdout().is_terminal(), wide: self.is_wide() };
        details(drain, &pods.iter().collect::<Vec<_>>(), manner, now)
    }

    fn is_wide(&self) -> bool {
        self.output == Some(View::Wide)
    }

    /// Prints each visible change of those drains, until they have ended; of all drains when there are none.
    async fn watch(&self, client: Client, mut open: Vec<String>) -> anyhow::Result<Exit> {
        let events = drains(client, &open);
        pin_mut!(events);
        let all = open.is_empty();
        let mut told = std::collections::BTreeMap::new();
        let mut allowed = false;
        while let Some(event) = events.next().await {
            let drain = match event {
                Ok(Event::InitApply(drain) | Event::Apply(drain)) => drain,
                Ok(Event::Delete(drain)) => {
                    say(format_args!("nodeevacuation {} is gone", drain.name_any()))?;
                    told.remove(&drain.name_any());
                    open.retain(|name| *name != drain.name_any());
                    if !all && open.is_empty() {
                        break;
                    }
                    continue;
                }
                Ok(Event::Init | Event::InitDone) => {
                    allowed = true;
                    continue;
                }
                Err(error) if !allowed && is_final(&error) => {
                    return Err(error).context("nodeevacuations cannot be watched");
                }
                Err(_) => continue,
            };
            let rendered = match self.output {
                Some(view) => view.render(&drain, &[drain_resource(&drain)])?,
                None => None,
            };
            let now = Now::of(self.connection.outages().is_led());
            let text = match &rendered {
                Some(text) => text.clone(),
                None if !all => self.page(&drain, &[], now),
                None => {
                    let lines = table(std::slice::from_ref(&drain), self.is_wide(), now);
                    let from = usize::from(!told.is_empty());
                    lines.get(from..).unwrap_or_default().join("\n")
                }
            };
            // The age of a drain is no change of it.
            let state = (drain.spec.paused, drain.status.clone(), drain.metadata.deletion_timestamp.clone());
            if told.insert(drain.name_any(), state.clone()) != Some(state) {
                if rendered.is_some() { say(text)? } else { tell(text)? }
            }
            if has_ended(&drain) {
                open.retain(|name| *name != drain.name_any());
                if !all && open.is_empty() {
                    break;
                }
            }
        }
        Ok(Exit::Done)
    }
}
