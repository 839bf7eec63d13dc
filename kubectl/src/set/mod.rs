//! `kubectl evacuate set DRAIN|NODE|pod/POD`
//!
//! # Flow
//!
//! The command changes `spec.requester` and `spec.pods` of a NodeEvacuation, and the controller then replaces
//! the drain's entries. For a pod it changes one entry of the active Evacuation. It sends only the fields
//! that the flags name.

mod drain;
mod entry;
mod pod;
mod settings;

use std::fmt::{self, Display, Formatter};

use anyhow::bail;
use clap::Args;
use evacuation_api::NodeEvacuation;
use kube::{Api, ResourceExt};

use self::settings::Settings;
pub(crate) use self::{
    entry::{EntryKey, find},
    pod::write,
};
use crate::{
    Exit,
    connection::NamespacedConnection,
    drain_ref::{DrainRef, drain_ref},
    moment::Now,
    output::say,
    pod_evacuation::active,
    pod_name::pod_name,
};

/// Change the deadline, and what follows from it and from a refusal: of a running drain, or of your request
/// for one pod. Of a drain, also which pods it asks.
///
/// A deadline counts from now. The pods that are asked stay asked, and their answers stay.
#[derive(Args, Debug)]
pub struct Set {
    /// Name of a NodeEvacuation, or of a node that is drained alone; or pod/NAME.
    #[arg(value_name = "NAME|NODE|pod/NAME", value_parser = target)]
    name: Target,
    #[command(flatten)]
    settings: Settings,
    /// Of a pod: name of the entry in spec.requesters to change; your only one by default.
    #[arg(long, value_name = "DOMAIN/NAME")]
    requester: Option<String>,
    /// Of a pod: owner of the entry to change; you by default. Another's entry needs the verb override.
    #[arg(long, value_name = "USER")]
    owner: Option<String>,
    #[command(flatten)]
    connection: NamespacedConnection,
}

/// The object of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Pod(String),
    Drain(DrainRef),
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(name) => write!(f, "pod/{name}"),
            Self::Drain(drain) => drain.fmt(f),
        }
    }
}

impl Set {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// The drain or the entry does not exist, has ended, or may not be changed.
    pub async fn run(self) -> anyhow::Result<Exit> {
        let client = self.connection.client().await?;
        let now = Now::of(self.connection.outages().is_led());
        let drain = match &self.name {
            Target::Pod(pod) => {
                if let Some(flag) = self.settings.pod_rule() {
                    bail!("{flag} is a rule of a drain: name the drain or its node");
                }
                let evacuation = active(&client, pod, "").await?;
                let (owner, name) = (self.owner.as_deref(), self.requester.as_deref());
                let key = find(&client, &evacuation, owner, name, "set").await?;
                pod::change(&client, evacuation, &key, &self.settings, now).await?;
                return Ok(Exit::Done);
            }
            Target::Drain(_) if self.owner.is_some() || self.requester.is_some() => {
                bail!("--owner and --requester choose a request for a pod: name it as pod/NAME");
            }
            Target::Drain(drain) => drain,
        };
        let api: Api<NodeEvacuation> = Api::all(client.clone());
        for drain in drain.alone(&client).await? {
            let name = drain.name_any();
            let changed = drain::change(&api, &drain, &self.settings, now.time).await?;
            say(format_args!("nodeevacuation {name} changed: {}", drain::settings(&changed, now)))?;
            for note in drain::notes(&drain, &changed, now) {
                eprintln!("note: {note}");
            }
        }
        Ok(Exit::Done)
    }
}

/// Reads a target: pod/NAME, or as [`drain_ref`].
pub(crate) fn target(text: &str) -> Result<Target, String> {
    match text.split_once('/').and(pod_name(text).ok()) {
        Some(pod) => Ok(Target::Pod(pod)),
        None => drain_ref(text).map(Target::Drain),
    }
}
