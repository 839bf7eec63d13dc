//! The cast: pods of Deployments, and the processes that answer for them.

use anyhow::Context;
use evacuation_e2e::{App, Platform};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::stage::Stage;

/// The port on which the Python app answers.
const PYTHON_PORT: u16 = 8080;
/// Work of the busy app, in seconds.
pub(crate) const WORK_SECONDS: i64 = 10;
/// Work of the indexer, in seconds: longer than the story.
const INDEX_SECONDS: i64 = 600;

/// The pods as they were before anything happened, and the apps that answer for them.
pub(crate) struct Cast {
    /// Accepts.
    pub(crate) web: Pod,
    /// Needs time, then accepts.
    pub(crate) worker: Pod,
    /// Refuses.
    pub(crate) backup: Pod,
    /// Two that know nothing of evacuation.
    pub(crate) plain: Vec<Pod>,
    /// Needs more time than it will be given.
    pub(crate) indexer: Pod,
    /// A single replica, of which its budget lets none go.
    pub(crate) catalog: Pod,
    /// The process that answers for the indexer.
    pub(crate) indexing: App,
    others: Vec<App>,
}

impl Cast {
    /// Brings the apps onto the node that is drained, and the indexer onto another.
    pub(crate) async fn enter(stage: &Stage<'_>) -> anyhow::Result<Self> {
        stage.open_others(false).await?;
        let watching = json!([{"name": "self"}]);
        let pushed = json!([{"name": "self", "http": {"port": PYTHON_PORT, "path": "/evacuation"}}]);
        stage.deploy("web", 1, Some(&watching)).await?;
        stage.deploy("worker", 1, Some(&watching)).await?;
        stage.deploy("backup", 1, Some(&pushed)).await?;
        stage.deploy("plain", 2, None).await?;
        stage.pods().budget("plain", ("app", "plain"), 1).await?;
        let web = one(&stage.ready("web", 1).await?)?;
        let worker = one(&stage.ready("worker", 1).await?)?;
        let backup = one(&stage.ready("backup", 1).await?)?;
        let plain = stage.ready("plain", 2).await?;
        stage.open_others(true).await?;
        stage.deploy("indexer", 1, Some(&watching)).await?;
        stage.deploy("catalog", 1, None).await?;
        stage.pods().budget("catalog", ("app", "catalog"), 0).await?;
        let catalog = one(&stage.ready("catalog", 1).await?)?;
        let indexer = one(&stage.ready("indexer", 1).await?)?;
        let platform = stage.platform();
        let refusal = ["--answer", "Refuse", "--message", "a backup is running"];
        let others = vec![
            App::watching(platform, &web, "accept", &[]).await?,
            works(platform, &worker, WORK_SECONDS).await?,
            App::python(platform, &backup, PYTHON_PORT, &refusal).await?,
        ];
        let indexing = works(platform, &indexer, INDEX_SECONDS).await?;
        let (node, namespace) = (stage.node(), stage.namespace());
        stage.tell(format!("node {node} runs, in namespace {namespace}:"));
        stage.tell("  web      accepts                       (Rust, watches)");
        stage.tell(format!("  worker   needs {WORK_SECONDS} s first              (Rust, watches)"));
        stage.tell("  backup   refuses                       (Python, is pushed to over HTTP)");
        stage
            .tell("  plain    two replicas, under a budget of maxUnavailable 1 (know nothing of evacuation)");
        stage.tell("and on other nodes:");
        stage.tell(format!("  indexer  needs {INDEX_SECONDS} s first             (Rust, watches)"));
        stage.tell("  catalog  a single replica, under a budget of maxUnavailable 0");
        Ok(Self { web, worker, backup, plain, indexer, catalog, indexing, others })
    }

    /// Tells what the apps have printed, but for their logs.
    pub(crate) fn tell(&self, stage: &Stage<'_>) -> anyhow::Result<()> {
        for app in &self.others {
            let log = app.process().log()?;
            for line in log.lines().filter(|line| !line.contains(" INFO ")) {
                stage.tell(format!("{} said: {line}", app.process().name()));
            }
        }
        Ok(())
    }
}

/// An app that finishes its work first.
async fn works(platform: &Platform, pod: &Pod, seconds: i64) -> anyhow::Result<App> {
    let arguments = ["--work-seconds", &seconds.to_string()];
    App::watching(platform, pod, "finish_work", &arguments).await
}

fn one(pods: &[Pod]) -> anyhow::Result<Pod> {
    pods.first().cloned().context("the deployment has a pod")
}
