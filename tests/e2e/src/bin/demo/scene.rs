//! The scene: one node with four apps, and what the operator does.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, bail};
use controlplane::{Output, eventually};
use evacuation_e2e::{App, Platform, Pods};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use crate::story::Story;

/// The port on which the Python app answers.
const PYTHON_PORT: u16 = 8080;
/// How long the busy app needs, in seconds.
pub(crate) const WORK_SECONDS: i64 = 10;
/// How long pods may take to be ready on a busy machine.
const READY: Duration = Duration::from_mins(1);

/// The pods as they were before anything happened, and the apps that answer for them.
pub(crate) struct Scene {
    pods: Pods,
    node: String,
    pub(crate) accepting: Pod,
    pub(crate) working: Pod,
    pub(crate) refusing: Pod,
    pub(crate) plain: Vec<Pod>,
    apps: Vec<App>,
}

/// What the operator's commands printed.
pub(crate) struct Ends {
    pub(crate) one_pod: Output,
    pub(crate) node: Output,
}

impl Scene {
    /// Brings the apps onto one node.
    pub(crate) async fn set(platform: &Platform, story: &Story) -> anyhow::Result<Self> {
        let pods = platform.namespace("shop").await?;
        let nodes: Api<Node> = Api::all(platform.client()?);
        let names: Vec<String> = nodes
            .list(&ListParams::default())
            .await?
            .items
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        let (node, others) = names.split_first().context("the cluster has nodes")?;
        for other in others {
            cordon(&nodes, other, true).await?;
        }
        let watching = json!([{"name": "self"}]);
        let pushed = json!([{"name": "self", "http": {"port": PYTHON_PORT, "path": "/evacuation"}}]);
        deployment(platform, &pods, "web", 1, Some(&watching)).await?;
        deployment(platform, &pods, "worker", 1, Some(&watching)).await?;
        deployment(platform, &pods, "backup", 1, Some(&pushed)).await?;
        deployment(platform, &pods, "plain", 2, None).await?;
        pods.budget("plain", ("app", "plain"), 1).await?;
        let accepting = one(&ready(&pods, "web", 1).await?)?;
        let working = one(&ready(&pods, "worker", 1).await?)?;
        let refusing = one(&ready(&pods, "backup", 1).await?)?;
        let plain = ready(&pods, "plain", 2).await?;
        for other in others {
            cordon(&nodes, other, false).await?;
        }
        let apps = vec![
            App::watching(platform, &accepting, "accept", &[]).await?,
            App::watching(
                platform,
                &working,
                "finish_work",
                &["--work-seconds", &WORK_SECONDS.to_string()],
            )
            .await?,
            App::python(
                platform,
                &refusing,
                PYTHON_PORT,
                &["--answer", "Refuse", "--message", "a backup is running"],
            )
            .await?,
        ];
        story.tell(format!("node {node} runs, in namespace {}:", pods.namespace()));
        story.tell("  web      accepts             (Rust, watches)");
        story.tell("  worker   needs 10 s first    (Rust, watches)");
        story.tell("  backup   refuses             (Python, is pushed to over HTTP)");
        story.tell(
            "  plain    two replicas that know nothing of evacuation, under a budget of maxUnavailable 1",
        );
        Ok(Self {
            pods,
            node: node.clone(),
            accepting,
            working,
            refusing,
            plain,
            apps,
        })
    }

    /// The operator's part.
    pub(crate) async fn play(&self, platform: &Platform, story: &Story) -> anyhow::Result<Ends> {
        let pod = self.accepting.name_any();
        let one_pod = operator(
            platform,
            story,
            &[
                "create",
                "evacuation",
                &pod,
                "-n",
                self.namespace(),
                "--reason",
                "Rebalancing",
                "--wait",
                "--timeout",
                "60s",
            ],
        )
        .await?;
        let node = operator(
            platform,
            story,
            &[
                "evacuate",
                "node",
                &self.node,
                "--reason",
                "NodeMaintenance",
                "--message",
                "kernel upgrade",
                "--timeout",
                "90s",
            ],
        )
        .await?;
        operator(platform, story, &["get", "evacuations", "-n", self.namespace()]).await?;
        for app in &self.apps {
            let log = app.process().log()?;
            for line in log.lines().filter(|line| !line.contains(" INFO ")) {
                story.tell(format!("{} said: {line}", app.process().name()));
            }
        }
        Ok(Ends { one_pod, node })
    }

    pub(crate) fn namespace(&self) -> &str {
        self.pods.namespace()
    }

    pub(crate) fn refusing_pod(&self) -> String {
        self.refusing.name_any()
    }

    /// The pods of an app as they are now.
    pub(crate) async fn app(&self, app: &str) -> anyhow::Result<Vec<Pod>> {
        let selector = ListParams::default().labels(&format!("app={app}"));
        Ok(self.pods.api().list(&selector).await?.items)
    }

    /// A pod as it is now; none when its UID is gone.
    pub(crate) async fn now(&self, pod: &Pod) -> anyhow::Result<Option<Pod>> {
        let found = self.pods.api().get_opt(&pod.name_any()).await?;
        Ok(found.filter(|found| found.uid() == pod.uid()))
    }
}

/// Runs a command of the operator's and tells what it prints, as it prints it.
async fn operator(platform: &Platform, story: &Story, arguments: &[&str]) -> anyhow::Result<Output> {
    story.tell(format!("$ kubectl {}", arguments.join(" ")));
    let mut command = tokio::process::Command::from(platform.kubectl_command());
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().context("kubectl did not start")?;
    let stdout = tell_lines(child.stdout.take().context("kubectl has an output")?, story);
    let stderr = tell_lines(child.stderr.take().context("kubectl has an error output")?, story);
    let (stdout, stderr, status) = tokio::join!(stdout, stderr, child.wait());
    let output = Output {
        code: status?.code(),
        stdout: stdout?,
        stderr: stderr?,
    };
    story.tell(format!(
        "  exit code {}",
        output
            .code
            .map_or_else(|| "none".to_owned(), |code| code.to_string())
    ));
    Ok(output)
}

async fn tell_lines(pipe: impl AsyncRead + Unpin, story: &Story) -> anyhow::Result<String> {
    let mut lines = BufReader::new(pipe).lines();
    let mut text = String::new();
    while let Some(line) = lines.next_line().await? {
        story.tell(format!("  {line}"));
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

async fn cordon(nodes: &Api<Node>, name: &str, unschedulable: bool) -> anyhow::Result<()> {
    let patch = json!({"spec": {"unschedulable": unschedulable}});
    nodes
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    Ok(())
}

async fn deployment(
    platform: &Platform,
    pods: &Pods,
    name: &str,
    replicas: usize,
    responders: Option<&serde_json::Value>,
) -> anyhow::Result<()> {
    let labels = json!({"app": name});
    let annotations =
        responders.map(|entries| json!({evacuation_api::RESPONDERS_ANNOTATION: entries.to_string()}));
    let deployment = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {
                    "containers": [{"name": "app", "image": "app"}],
                    // A replacement goes to a node with none of these, where there is one.
                    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                        "weight": 100,
                        "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {
                            "matchExpressions": [{"key": "app", "operator": "Exists"}],
                        }},
                    }]}},
                },
            },
        },
    });
    let deployment: Deployment = serde_json::from_value(deployment)?;
    let api: Api<Deployment> = Api::namespaced(platform.client()?, pods.namespace());
    api.create(&PostParams::default(), &deployment).await?;
    Ok(())
}

/// Waits until an app has that many ready pods, and returns them.
async fn ready(pods: &Pods, app: &str, count: usize) -> anyhow::Result<Vec<Pod>> {
    let api = pods.api();
    let selector = ListParams::default().labels(&format!("app={app}"));
    let names = eventually(READY, "the deployment has its pods", || async {
        let found = api.list(&selector).await?.items;
        if found.len() == count {
            Ok(found)
        } else {
            bail!("{} pods", found.len())
        }
    });
    let mut ready = Vec::new();
    for pod in names.await? {
        ready.push(pods.ready(&pod.name_any()).await?);
    }
    Ok(ready)
}

fn one(pods: &[Pod]) -> anyhow::Result<Pod> {
    pods.first().cloned().context("the deployment has a pod")
}
