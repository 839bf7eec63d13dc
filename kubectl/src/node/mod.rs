//! `kubectl evacuate node NODE...`
//!
//! # Flow
//!
//! The command asks the server for the plan of the drain, and leaves out nodes with a pod that may not be
//! drained. It stops when no other node is left. It then creates a NodeEvacuation, which the controller
//! carries out, and follows it. A drain of the same user and nodes that is in progress is followed instead.

mod cordons;
mod flags;
mod follow;
mod in_progress;
mod plan;
mod preview;
mod report;
mod spec;

use anyhow::Context;
use evacuation_api::{GROUP, NodeEvacuation};
use kube::{Api, Client, ResourceExt, api::PostParams};

pub use self::flags::Node;
use self::{
    follow::Follow,
    preview::{Preview, is_cordoned},
};
use crate::{
    Exit,
    dry_run::DryRun,
    output::{say, tell, warn},
};

impl Node {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// A node does not exist, its pods cannot be listed, or the server rejects the drain.
    pub async fn run(mut self) -> anyhow::Result<Exit> {
        let client = self.connection.client().await?;
        if let Some(drain) = self.existing(&client).await? {
            return self.follow(client, drain, None).await;
        }
        let preview = self.preview(&client).await?;
        let left_out = preview.left_out();
        if left_out.is_empty() {
            return self.begin(client, &preview).await;
        }
        preview.print_refusals();
        let names = left_out.join(", ");
        warn(format_args!("left out, because of these pods: {names}"));
        self.selector = None;
        self.nodes = preview.others(&left_out);
        let exit = if let Some(drain) = self.existing(&client).await? {
            self.follow(client, drain, None).await?
        } else {
            let preview = self.preview(&client).await?.without(left_out);
            self.begin(client, &preview).await?
        };
        warn(format_args!("error: left out: {names}"));
        Ok(if exit == Exit::Done { Exit::Errors } else { exit })
    }

    /// Returns the drain to follow instead of a new one.
    async fn existing(&self, client: &Client) -> anyhow::Result<Option<NodeEvacuation>> {
        if self.plan || self.dry_run.dry_run != DryRun::None {
            return Ok(None);
        }
        self.in_progress(client).await
    }

    /// Prints the plan, or carries it out.
    async fn begin(&self, client: Client, preview: &Preview) -> anyhow::Result<Exit> {
        if self.plan {
            return preview.print(self.output);
        }
        if preview.nodes().is_empty() {
            return Ok(Exit::Done);
        }
        let dry_run = self.dry_run.dry_run;
        preview.print_refusals();
        if preview.is_refused() {
            return Ok(Exit::Errors);
        }
        preview.print_warnings();
        if dry_run == DryRun::Client {
            return self.print_dry_run(preview);
        }
        let drain = self.create(&client).await?;
        if dry_run == DryRun::Server {
            return self.print_dry_run(preview);
        }
        say(format_args!("nodeevacuation.{GROUP}/{} created", drain.name_any()))?;
        self.follow(client, drain, Some(preview)).await
    }

    async fn create(&self, client: &Client) -> anyhow::Result<NodeEvacuation> {
        let dry_run = self.dry_run.dry_run == DryRun::Server;
        let params = PostParams { dry_run, ..PostParams::default() };
        let api: Api<NodeEvacuation> = Api::all(client.clone());
        api.create(&params, &self.manifest()?).await.context("the drain cannot be created")
    }

    /// Follows a drain. One that was created just now has a preview; in another the pods may be anywhere on
    /// their way.
    async fn follow(
        &self,
        client: Client,
        drain: NodeEvacuation,
        preview: Option<&Preview>,
    ) -> anyhow::Result<Exit> {
        if self.detach {
            // On one stream their order is that of the statements, wherever both streams go.
            hints(&drain.name_any()).iter().try_for_each(tell)?;
            return Ok(Exit::Done);
        }
        let nodes =
            preview.map(Preview::nodes).or(drain.status.as_ref().map(|status| status.nodes.as_slice()));
        let cordoned = nodes.into_iter().flatten().filter(|node| is_cordoned(node));
        let cordoned = cordoned.map(|node| node.name.clone()).collect();
        let outages = self.connection.outages();
        Follow { client, drain, fresh: preview.is_some(), cordoned, outages }.run(self.timeout).await
    }

    fn print_dry_run(&self, preview: &Preview) -> anyhow::Result<Exit> {
        let note = self.dry_run.dry_run.note();
        for node in preview.nodes() {
            let word = if is_cordoned(node) { "already cordoned" } else { "cordoned" };
            say(format_args!("node/{} {word}{note}", node.name))?;
        }
        for (pod, act) in preview.going() {
            say(format_args!("pod/{} {act}{note}", pod.pod))?;
        }
        Ok(Exit::Done)
    }
}

/// Returns the commands that show a drain and that undo it.
fn hints(name: &str) -> [String; 2] {
    [
        format!("to see it: kubectl evacuate status {name}"),
        format!("to undo it: kubectl evacuate cancel {name}"),
    ]
}
