//! Stage of the story: one namespace, the drained node and the others, and the operator's terminal.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, bail};
use controlplane::{Output, eventually};
use evacuation_api::Evacuation;
use evacuation_e2e::{Platform, Pods, workload};
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use crate::{audit::Audit, story::Story};

/// Time limit for pods to be ready on a busy machine.
const READY: Duration = Duration::from_mins(1);

/// The cluster as the acts use it.
pub(crate) struct Stage<'a> {
    platform: &'a Platform,
    story: Story,
    pods: Pods,
    node: String,
    others: Vec<String>,
}

impl<'a> Stage<'a> {
    pub(crate) async fn set(platform: &'a Platform, story: Story) -> anyhow::Result<Self> {
        let pods = platform.namespace("shop").await?;
        let nodes: Api<Node> = Api::all(platform.client()?);
        let nodes = nodes.list(&ListParams::default()).await?;
        let mut names = nodes.items.iter().map(ResourceExt::name_any);
        let node = names.next().context("the cluster has nodes")?;
        let others = names.collect();
        Ok(Self { platform, story, pods, node, others })
    }

    pub(crate) fn platform(&self) -> &Platform {
        self.platform
    }

    pub(crate) fn pods(&self) -> &Pods {
        &self.pods
    }

    pub(crate) fn namespace(&self) -> &str {
        self.pods.namespace()
    }

    /// The node that is drained.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn tell(&self, what: impl AsRef<str>) {
        self.story.tell(what);
    }

    /// Audit events that kube-apiserver has recorded so far.
    pub(crate) fn audit(&self) -> anyhow::Result<Audit> {
        Ok(Audit::new(self.platform.control_plane().audit_events()?))
    }

    /// Opens or closes the nodes that are not drained to new pods.
    pub(crate) async fn open_others(&self, open: bool) -> anyhow::Result<()> {
        for node in &self.others {
            self.open(node, open).await?;
        }
        Ok(())
    }

    /// Opens or closes a node to new pods.
    pub(crate) async fn open(&self, node: &str, open: bool) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.platform.client()?);
        let patch = json!({"spec": {"unschedulable": !open}});
        nodes.patch(node, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Creates a Deployment, whose pods have the label `app`.
    pub(crate) async fn deploy(
        &self,
        name: &str,
        replicas: usize,
        responders: Option<&Value>,
    ) -> anyhow::Result<()> {
        let deployment: Deployment = serde_json::from_value(spread(name, replicas, responders))?;
        let api: Api<Deployment> = Api::namespaced(self.platform.client()?, self.namespace());
        api.create(&PostParams::default(), &deployment).await?;
        Ok(())
    }

    /// Creates a StatefulSet, whose pods are named `NAME-0`, `NAME-1`, ..., and have the label `app`.
    pub(crate) async fn deploy_numbered(
        &self,
        name: &str,
        replicas: usize,
        responders: Option<&Value>,
    ) -> anyhow::Result<()> {
        let mut set: StatefulSet = serde_json::from_value(spread(name, replicas, responders))?;
        set.spec.pod_management_policy = Some("Parallel".to_owned());
        let api: Api<StatefulSet> = Api::namespaced(self.platform.client()?, self.namespace());
        api.create(&PostParams::default(), &set).await?;
        Ok(())
    }

    /// The pods of an app as they are now.
    pub(crate) async fn app(&self, app: &str) -> anyhow::Result<Vec<Pod>> {
        let selector = ListParams::default().labels(&format!("app={app}"));
        Ok(self.pods.api().list(&selector).await?.items)
    }

    /// Waits until an app has that many ready pods, and returns them.
    pub(crate) async fn ready(&self, app: &str, count: usize) -> anyhow::Result<Vec<Pod>> {
        let pods = eventually(READY, "the deployment has its pods", || async {
            let found = self.app(app).await?;
            if found.len() == count { Ok(found) } else { bail!("{} pods", found.len()) }
        });
        let mut ready = Vec::new();
        for pod in pods.await? {
            ready.push(self.pods.ready(&pod.name_any()).await?);
        }
        Ok(ready)
    }

    /// A pod as it is now; none when its UID is gone.
    pub(crate) async fn now(&self, pod: &Pod) -> anyhow::Result<Option<Pod>> {
        let found = self.pods.api().get_opt(&pod.name_any()).await?;
        Ok(found.filter(|found| found.uid() == pod.uid()))
    }

    /// Returns whether the very pod exists and is not terminating.
    pub(crate) async fn runs(&self, pod: &Pod) -> anyhow::Result<bool> {
        let now = self.now(pod).await?;
        Ok(now.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()))
    }

    /// The Evacuations of that very pod.
    pub(crate) async fn evacuations_of(&self, pod: &Pod) -> anyhow::Result<Vec<Evacuation>> {
        let all = self.pods.evacuations().list(&ListParams::default()).await?;
        let of_pod = all.items.into_iter().filter(|e| e.spec.target.pod.uid == pod.uid());
        Ok(of_pod.collect())
    }

    /// Runs a command of the operator's, in the story's namespace, and tells what it prints, as it prints it.
    pub(crate) async fn operator(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let words = arguments
            .iter()
            .map(|word| if word.contains(' ') { format!("\"{word}\"") } else { (*word).to_owned() });
        self.tell(format!("$ kubectl {}", words.collect::<Vec<_>>().join(" ")));
        let mut command = tokio::process::Command::from(self.platform.kubectl_command());
        // A node is in no namespace.
        let namespace = ["-n", self.namespace()];
        let of_node = arguments.starts_with(&["evacuate", "node"]);
        command
            .args(arguments)
            .args(if of_node { &[][..] } else { &namespace[..] })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().context("kubectl did not start")?;
        let stdout = self.tell_lines(child.stdout.take().context("kubectl has an output")?);
        let stderr = self.tell_lines(child.stderr.take().context("kubectl has an error output")?);
        let (stdout, stderr, status) = tokio::join!(stdout, stderr, child.wait());
        let output = Output { code: status?.code(), stdout: stdout?, stderr: stderr? };
        match output.code {
            Some(code) => self.tell(format!("  exit code {code}")),
            None => bail!("kubectl was killed"),
        }
        Ok(output)
    }

    async fn tell_lines(&self, pipe: impl AsyncRead + Unpin) -> anyhow::Result<String> {
        let mut lines = BufReader::new(pipe).lines();
        let mut text = String::new();
        while let Some(line) = lines.next_line().await? {
            self.tell(format!("  {line}"));
            text.push_str(&line);
            text.push('\n');
        }
        Ok(text)
    }
}

/// A workload whose pods go to a node with none of these, where there is one.
fn spread(name: &str, replicas: usize, responders: Option<&Value>) -> Value {
    let annotations =
        responders.map(|entries| json!({evacuation_api::RESPONDERS_ANNOTATION: entries.to_string()}));
    let mut workload = workload(name, replicas, &json!(annotations));
    let affinity = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 100,
        "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {
            "matchExpressions": [{"key": "app", "operator": "Exists"}],
        }},
    }]}});
    let more = [("tolerations", json!(controlplane::tolerations())), ("affinity", affinity)];
    if let Some(Value::Object(pod)) = workload.pointer_mut("/spec/template/spec") {
        pod.extend(more.map(|(field, value)| (field.to_owned(), value)));
    }
    workload
}
