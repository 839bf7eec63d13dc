//! The main job as a story: an operator evacuates a pod and a node; the apps are asked and answer; every answer is honoured.
//!
//! Real processes throughout: a Kubernetes control plane with kwok for nodes, our API server and controller, kubectl with
//! our plugins, two apps from the client crate's examples and one in Python. At the end the story is held against
//! kube-apiserver's audit log.

mod keep;
mod scene;
mod story;
mod verdict;

use clap::Parser;
use evacuation_e2e::{Platform, PlatformOptions};
use scene::Scene;
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
    let scene = Scene::set(&platform, &story).await?;
    let ends = scene.play(&platform, &story).await?;
    verdict::check(&platform, &scene, &ends, &story).await?;
    story.tell("every answer was honoured");
    if options.keep {
        keep::until_interrupted(&platform, &scene).await?;
    }
    Ok(())
}
