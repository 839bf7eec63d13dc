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

use anyhow::Context;
use clap::{Parser, ValueEnum};
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
    /// Play only what the picture shows, and draw its terminal: docs/images/drain.svg or night.svg.
    #[arg(long, value_name = "PICTURE", conflicts_with = "keep")]
    svg: Option<Drawing>,
}

/// Pictures of the documentation.
#[derive(Clone, Copy, ValueEnum)]
enum Drawing {
    /// The drain of three nodes.
    Drain,
    /// The commands of a person on call.
    Night,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let story = Story::begin();
    story.tell("starting Kubernetes, the evacuation API server, its controller and the gateway");
    let installed = PlatformOptions {
        gateway: Some(GATEWAY.to_owned()),
        components: vec!["built-in-responders".to_owned()],
        ..PlatformOptions::default()
    };
    let platform = Platform::start(installed).await?;
    story.tell("they are up; the API evacuation.dev/v1alpha1 is available");
    let stage = Stage::set(&platform, story).await?;
    if let Some(drawing) = options.svg {
        return draw(&stage, drawing).await;
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

/// Plays what a picture shows, and writes its terminal to a file.
async fn draw(stage: &Stage<'_>, drawing: Drawing) -> anyhow::Result<()> {
    let (recording, title, file) = match drawing {
        Drawing::Drain => {
            let recording = acts::rack(stage, true).await?.context("the drain was recorded")?;
            (recording, format!("A terminal: {}", acts::rack_command()), "docs/images/drain.svg")
        }
        Drawing::Night => {
            let title = "A terminal: a drain that a budget holds, one of a dead node, and no controller";
            (acts::night(stage).await?, title.to_owned(), "docs/images/night.svg")
        }
    };
    let drawn = svg(&recording.pictures((stage.namespace(), "shop")), &title);
    std::fs::write(file, &drawn).with_context(|| format!("{file} cannot be written"))?;
    stage.tell(format!("{file} has {} bytes", drawn.len()));
    Ok(())
}
