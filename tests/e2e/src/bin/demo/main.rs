//! The main job as a story in acts: an operator evacuates pods and a node, overrides a refusal at a deadline,
//! takes a request back, and moves a single replica without downtime; the apps are asked and answer; every
//! answer is honoured.
//!
//! Real processes throughout: a Kubernetes control plane with kwok for nodes, our API server and controller,
//! kubectl with our plugins, apps from the client crate's examples and one in Python. Each act is held
//! against kube-apiserver's audit log when it is over.

mod acts;
mod audit;
mod keep;
mod stage;
mod story;

use clap::Parser;
use evacuation_e2e::{Platform, PlatformOptions};
use stage::Stage;
use story::Story;

/// Show the main job on a real control plane.
#[derive(Parser)]
struct Options {
    /// Leave the cluster up until Ctrl-C, and say how to use it.
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let story = Story::begin();
    story.tell("starting Kubernetes, the evacuation API server and its controller");
    let platform = Platform::start(PlatformOptions::default()).await?;
    story.tell("they are up; the API evacuation.dev/v1alpha1 is available");
    let stage = Stage::set(&platform, story).await?;
    let cast = acts::Cast::enter(&stage).await?;
    acts::accepted(&stage, &cast).await?;
    acts::drained(&stage, &cast).await?;
    acts::overridden(&stage, &cast).await?;
    acts::withdrawn(&stage, &cast).await?;
    acts::replaced(&stage, &cast).await?;
    stage.tell("every answer was honoured");
    if options.keep {
        keep::until_interrupted(&stage, &cast).await?;
    }
    Ok(())
}
