//! The main job as a story in acts: an operator evacuates pods and a node, overrides a refusal at a deadline,
//! takes a request back, moves a single replica without downtime, drains a node by plain `kubectl drain`, and
//! three nodes at once; the apps are asked and answer; every answer is honoured.
//!
//! Real processes throughout: a Kubernetes control plane with kwok for nodes, our API server and controller,
//! kubectl with our plugins, apps from the client crate's examples and one in Python. Each act is held
//! against kube-apiserver's audit log when it is over.

mod acts;
mod audit;
mod keep;
mod recording;
mod stage;
mod story;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Parser;
use evacuation_e2e::{Platform, PlatformOptions};
use recording::svg;
use stage::Stage;
use story::Story;

/// The gateway's configuration: the built-in table of callers.
const GATEWAY: &str =
    "{apiVersion: gateway.evacuation.dev/v1alpha1, kind: GatewayConfiguration, callers: []}";

/// Show the main job on a real control plane.
#[derive(Parser)]
struct Options {
    /// Leave the cluster up until Ctrl-C, and say how to use it.
    #[arg(long)]
    keep: bool,
    /// Play only the drain of three nodes, and write its terminal to this file as SVG.
    #[arg(long, value_name = "FILE", conflicts_with = "keep")]
    svg: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let story = Story::begin();
    story.tell("starting Kubernetes, the evacuation API server, its controller and the gateway");
    let installed = PlatformOptions { gateway: Some(GATEWAY.to_owned()), ..PlatformOptions::default() };
    let platform = Platform::start(installed).await?;
    story.tell("they are up; the API evacuation.dev/v1alpha1 is available");
    let stage = Stage::set(&platform, story).await?;
    if let Some(file) = options.svg {
        return draw(&stage, &file).await;
    }
    let cast = acts::Cast::enter(&stage).await?;
    acts::accepted(&stage, &cast).await?;
    acts::drained(&stage, &cast).await?;
    acts::overridden(&stage, &cast).await?;
    acts::withdrawn(&stage, &cast).await?;
    acts::replaced(&stage, &cast).await?;
    acts::unaware(&stage).await?;
    acts::shared_budget(&stage).await?;
    acts::rack(&stage, false).await?;
    stage.tell("every answer was honoured");
    if options.keep {
        keep::until_interrupted(&stage, &cast).await?;
    }
    Ok(())
}

/// Plays the drain of three nodes and writes its terminal to a file.
async fn draw(stage: &Stage<'_>, file: &Path) -> anyhow::Result<()> {
    let recording = acts::rack(stage, true).await?.context("the drain was recorded")?;
    let command = acts::rack_command();
    let drawn =
        svg(&recording.pictures(&command, (stage.namespace(), "shop")), &format!("A terminal: {command}"));
    std::fs::write(file, &drawn).with_context(|| format!("{} cannot be written", file.display()))?;
    stage.tell(format!("{} has {} bytes", file.display(), drawn.len()));
    Ok(())
}
