//! A person's desk: a scene, and kubectl in its namespace.

use std::{ops::Deref, path::PathBuf, process::Command};

use controlplane::{Output, Process, output_of};
use evacuation_api::Evacuation;
use evacuation_client::Answer;
use evacuation_e2e::{PodSpec, Scene, scene::Running};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use tempfile::TempDir;

/// The node on which pods run, unless their test has a node of its own.
const NODE: &str = "node-1";

/// A scene, and kubectl in its namespace.
pub(crate) struct Desk {
    scene: Scene,
    files: TempDir,
}

impl Deref for Desk {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

impl Desk {
    pub(crate) async fn new(prefix: &str) -> Self {
        Self { scene: Scene::new(prefix).await, files: TempDir::new().unwrap() }
    }

    /// A pod whose app knows nothing of evacuation.
    pub(crate) async fn plain_pod(&self, name: &str) -> Pod {
        self.pods.create(name, &plain()).await.unwrap()
    }

    /// A pod whose app is asked and stays silent for a minute.
    pub(crate) async fn silent_pod(&self, name: &str) -> Pod {
        self.pods.create(name, &silent()).await.unwrap()
    }

    /// An Evacuation of that pod, by the requester `test.evacuation.dev/desk`.
    pub(crate) async fn evacuation(&self, pod: &str) -> Evacuation {
        let requester = self.requester("test.evacuation.dev/desk");
        requester.evacuate(self.namespace(), pod).await.unwrap().object().clone()
    }

    /// An Evacuation whose app is asked and stays silent.
    pub(crate) async fn asked(&self, pod: &str) -> Evacuation {
        self.silent_pod(pod).await;
        let evacuation = self.evacuation(pod).await;
        self.until_state(&evacuation, "Asking").await
    }

    /// The arguments, in this namespace.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.platform().kubectl_command();
        command.args(arguments).args(["-n", self.namespace()]);
        command
    }

    /// Runs kubectl in this namespace.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        output_of("kubectl", self.command(arguments)).await.unwrap()
    }

    /// Runs kubectl in this namespace, which must succeed, and returns what it printed.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
        output.stdout
    }

    /// Runs kubectl in this namespace, which must fail with that code, and returns what it complained of.
    pub(crate) async fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert_eq!(output.code, Some(code), "{arguments:?}: {output:?}");
        output.stderr
    }

    /// Starts a kubectl that runs beside the test.
    pub(crate) fn start(&self, arguments: &[&str]) -> Process {
        self.spawn(self.command(arguments))
    }

    /// Starts a kubectl that runs beside the test, and that takes no namespace.
    pub(crate) fn start_in_cluster(&self, arguments: &[&str]) -> Process {
        let mut command = self.platform().kubectl_command();
        command.args(arguments);
        self.spawn(command)
    }

    fn spawn(&self, command: Command) -> Process {
        let name = format!("kubectl-{}", self.namespace());
        let logs = self.platform().control_plane().logs();
        Process::spawn(name, command, &logs).unwrap()
    }

    /// Cancels the drain of a node, and returns what kubectl printed.
    pub(crate) async fn cancel(&self, node: &str) -> String {
        let output = self.platform().kubectl(&["evacuate", "cancel", node]).await.unwrap();
        assert_eq!(output.code, Some(0), "{output:?}");
        output.stdout
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// The number of Evacuations in the namespace.
    pub(crate) async fn count(&self) -> usize {
        self.evacuations().list(&ListParams::default()).await.unwrap().items.len()
    }

    /// Runs the pod's app, which gives that answer to every question.
    pub(crate) async fn answers(&self, pod: &Pod, answer: Answer) -> Running {
        self.app(pod, move |_| {
            let answer = answer.clone();
            async move { answer }
        })
        .await
    }
}

/// A pod whose app knows nothing of evacuation.
pub(crate) fn plain() -> PodSpec {
    PodSpec::default().on(NODE)
}

/// A pod whose app is asked by watching.
pub(crate) fn silent() -> PodSpec {
    PodSpec::watching().on(NODE)
}

/// An Evacuation as a file of a person's.
pub(crate) fn manifest(name: &str, pod: &str) -> String {
    format!(
        "apiVersion: evacuation.dev/v1alpha1
kind: Evacuation
metadata:
  name: {name}
spec:
  target:
    pod:
      name: {pod}
  requesters:
  - name: test.evacuation.dev/file
    reason: NodeMaintenance
    onRefusal: Wait
"
    )
}

/// A table's lines as words.
pub(crate) fn table(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

/// Asserts that a text has all these parts.
#[track_caller]
pub(crate) fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}
