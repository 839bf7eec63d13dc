//! One person's desk: a namespace, and kubectl in it.

use std::{path::PathBuf, process::Command};

use controlplane::{Output, Process, output_of};
use evacuation_api::Evacuation;
use evacuation_client::{Answer, Requester, Responder};
use evacuation_e2e::{Platform, PodSpec, Pods, pod_client, shared};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::ListParams};
use tempfile::TempDir;

/// The node on which pods run, unless their test has a node of its own.
const NODE: &str = "node-1";

/// A namespace, and kubectl in it.
pub(crate) struct Desk {
    pub(crate) platform: &'static Platform,
    pub(crate) pods: Pods,
    files: TempDir,
}

impl Desk {
    pub(crate) async fn new(prefix: &str) -> Self {
        let platform = shared().await.unwrap();
        Self { platform, pods: platform.namespace(prefix).await.unwrap(), files: TempDir::new().unwrap() }
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
        let requester = Requester::new(self.platform.client().unwrap(), "test.evacuation.dev/desk");
        let evacuation = requester.evacuate(self.pods.namespace(), pod).await.unwrap();
        evacuation.object().clone()
    }

    /// An Evacuation whose app is asked and stays silent.
    pub(crate) async fn asked(&self, pod: &str) -> Evacuation {
        self.silent_pod(pod).await;
        let evacuation = self.evacuation(pod).await;
        self.pods
            .until(&evacuation.name_any(), "the app is asked", |e| {
                evacuation_protocol::state_word(e) == "Asking"
            })
            .await
            .unwrap()
    }

    /// The arguments, in this namespace.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.platform.kubectl_command();
        command.args(arguments).args(["-n", self.pods.namespace()]);
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
        let name = format!("kubectl-{}", self.pods.namespace());
        let logs = self.platform.control_plane().logs();
        Process::spawn(name, self.command(arguments), &logs).unwrap()
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// The Evacuation of that pod, the only one.
    pub(crate) async fn evacuation_of(&self, pod: &str) -> Evacuation {
        let field = format!("spec.target.pod.name={pod}");
        let list = self.pods.evacuations().list(&ListParams::default().fields(&field)).await.unwrap();
        assert_eq!(list.items.len(), 1, "{list:?}");
        list.items.into_iter().next().unwrap()
    }

    /// How many Evacuations there are in the namespace.
    pub(crate) async fn evacuations(&self) -> usize {
        let api = self.pods.evacuations();
        api.list(&ListParams::default()).await.unwrap().items.len()
    }

    /// Has the pod's app give that answer whenever it is asked.
    pub(crate) async fn answers(&self, pod: &Pod, answer: Answer) {
        let client = pod_client(self.platform, pod).await.unwrap();
        let handler = move |_| {
            let answer = answer.clone();
            async move { answer }
        };
        tokio::spawn(Responder::of_pod(client).run(handler));
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
