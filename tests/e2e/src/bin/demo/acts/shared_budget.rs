//! A rollout and a plain drain at once, under one budget.

use anyhow::{Context, ensure};
use evacuation_e2e::scene::Availability;

use crate::stage::Stage;

/// Replicas of the app. Its rollout replaces half of them at once.
const REPLICAS: usize = 6;
/// The strategy of the rollout.
const STRATEGY: &str =
    r#"{"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": "50%", "maxSurge": 0}}}}"#;
/// A new version, whose pods take a second to become ready.
const VERSION: &str =
    r#"{"spec": {"template": {"metadata": {"annotations": {"controlplane.test/running-after": "1s"}}}}}"#;
/// The label by which the namespace opts in.
const COUNT: &str = "gateway.evacuation.dev/count";

pub(crate) async fn shared_budget(stage: &Stage<'_>) -> anyhow::Result<()> {
    stage.deploy("site", REPLICAS, None).await?;
    let site = stage.ready("site", REPLICAS).await?;
    let node = site.iter().find_map(|pod| pod.spec.as_ref()?.node_name.clone());
    let node = node.context("the pods have nodes")?;
    stage.pods().budget("site", ("app", "site"), 1).await?;
    stage.tell(format!("site has {REPLICAS} replicas: a rollout may replace half of them at once, its budget lets one be missing"));
    succeeds(stage, &["label", "namespace", stage.namespace(), &format!("{COUNT}=deletions")]).await?;
    succeeds(stage, &["patch", "deployment", "site", "--patch", STRATEGY]).await?;
    let availability = Availability::of(stage.pods().api(), "app=site").await;
    succeeds(stage, &["patch", "deployment", "site", "--patch", VERSION]).await?;
    let drain = ["drain", &node, "--ignore-daemonsets", "--pod-selector=app=site", "--timeout=90s"];
    succeeds(stage, &drain).await?;
    succeeds(stage, &["rollout", "status", "deployment/site", "--timeout=90s"]).await?;
    succeeds(stage, &["uncordon", &node]).await?;
    succeeds(stage, &["label", "namespace", stage.namespace(), &format!("{COUNT}-")]).await?;
    let (fewest, _) = availability.bounds().await;
    ensure!(fewest >= REPLICAS - 1, "only {fewest} of {REPLICAS} pods were ready");
    stage.tell(format!("watch: {fewest} of {REPLICAS} pods were ready at every moment"));
    Ok(())
}

async fn succeeds(stage: &Stage<'_>, arguments: &[&str]) -> anyhow::Result<()> {
    let done = stage.operator(arguments).await?;
    ensure!(done.code == Some(0), "{}: {done:?}", arguments.join(" "));
    Ok(())
}
