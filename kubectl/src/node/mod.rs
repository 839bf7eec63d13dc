//! `kubectl evacuate node NODE...`
//!
//! # Flow
//!
//! The command reads the nodes and their pods, and stops when a pod may not be drained. It then creates a
//! NodeEvacuation, which the controller carries out, and follows it. A drain of the same user and nodes that
//! is in progress is followed instead.

mod flags;
mod follow;
mod in_progress;
mod plan;
mod pods;
mod report;
mod spec;

use anyhow::Context;
use evacuation_api::{GROUP, NodeEvacuation};
use k8s_openapi::api::core::v1::Node as CoreNode;
use kube::{Api, Client, ResourceExt, api::PostParams};

pub use self::flags::Node;
pub(crate) use self::{flags::node_name, pods::is_cordoned};
use self::{follow::Follow, pods::Chosen};
use crate::{Exit, dry_run::DryRun, output::say, plain::full_name};

impl Node {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// A node does not exist, its pods cannot be listed, or the server rejects the drain.
    pub async fn run(self) -> anyhow::Result<Exit> {
        let client = self.connection.client().await?;
        let nodes = self.read_nodes(&client).await?;
        if self.plan {
            return self.print_plan(&client, &nodes).await;
        }
        let dry_run = self.dry_run.dry_run;
        if dry_run == DryRun::None
            && let Some(drain) = self.in_progress(&client).await?
        {
            return self.follow(client, drain, false, &nodes).await;
        }
        let chosen = self.choose(&client, &nodes).await?;
        chosen.print_refusals();
        if !chosen.refusals.is_empty() {
            return Ok(Exit::Errors);
        }
        for warning in &chosen.warnings {
            eprintln!("warning: {warning}");
        }
        if dry_run == DryRun::Client {
            return self.print_dry_run(&nodes, &chosen);
        }
        let drain = self.create(&client).await?;
        if dry_run == DryRun::Server {
            return self.print_dry_run(&nodes, &chosen);
        }
        say(format_args!("nodeevacuation.{GROUP}/{} created", drain.name_any()))?;
        self.follow(client, drain, true, &nodes).await
    }

    async fn create(&self, client: &Client) -> anyhow::Result<NodeEvacuation> {
        let dry_run = self.dry_run.dry_run == DryRun::Server;
        let params = PostParams { dry_run, ..PostParams::default() };
        let api: Api<NodeEvacuation> = Api::all(client.clone());
        api.create(&params, &self.manifest()?).await.context("the drain cannot be created")
    }

    async fn follow(
        &self,
        client: Client,
        drain: NodeEvacuation,
        fresh: bool,
        nodes: &[CoreNode],
    ) -> anyhow::Result<Exit> {
        if self.detach {
            print_hints(&drain.name_any());
            return Ok(Exit::Done);
        }
        let cordoned = nodes.iter().filter(|node| is_cordoned(node)).map(ResourceExt::name_any).collect();
        Follow { client, drain, fresh, cordoned }.run(self.timeout).await
    }

    fn print_dry_run(&self, nodes: &[CoreNode], chosen: &Chosen) -> anyhow::Result<Exit> {
        let note = self.dry_run.dry_run.note();
        for node in nodes {
            let word = if is_cordoned(node) { "already cordoned" } else { "cordoned" };
            say(format_args!("node/{} {word}{note}", node.name_any()))?;
        }
        for pod in &chosen.pods {
            say(format_args!("pod/{} asked{note}", full_name(pod)))?;
        }
        for pod in &chosen.completed {
            say(format_args!("pod/{} deleted{note}", full_name(pod)))?;
        }
        Ok(Exit::Done)
    }
}

/// Prints the commands that show a drain and that undo it.
fn print_hints(name: &str) {
    eprintln!("to see it: kubectl evacuate status {name}");
    eprintln!("to undo it: kubectl evacuate cancel {name}");
}
