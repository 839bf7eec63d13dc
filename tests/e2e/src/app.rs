//! Apps that answer: real processes, each with the token or the IP of its pod.

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::Context;
use controlplane::Process;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, Config, ResourceExt,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::{Platform, kubeconfig::write_kubeconfig, programs::root};

/// Time limit for an app to start on a busy machine.
const START: Duration = Duration::from_mins(2);

/// A process that plays the app of a pod. It ends when this is dropped.
#[derive(Debug)]
pub struct App {
    process: Process,
}

impl App {
    /// An example of the client crate, with the token that is bound to the pod.
    ///
    /// # Errors
    ///
    /// Fails when it does not start.
    pub async fn watching(
        platform: &Platform,
        pod: &Pod,
        example: &str,
        arguments: &[&str],
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(platform.programs().example(example));
        command.env("KUBECONFIG", pod_kubeconfig(platform, pod).await?).args(arguments);
        Self::spawn(platform, pod, command)
    }

    /// The guide's Python handler, on the pod's IP.
    ///
    /// # Errors
    ///
    /// Fails when it does not start.
    pub async fn python(
        platform: &Platform,
        pod: &Pod,
        port: u16,
        arguments: &[&str],
    ) -> anyhow::Result<Self> {
        let mut command = Command::new("python3");
        command.arg(root().join("docs/guide/http/handler.py"));
        Self::handler(platform, pod, command, port, arguments).await
    }

    /// A handler with the command line that those of the guide have, on the pod's IP.
    ///
    /// # Errors
    ///
    /// Fails when it does not start.
    pub async fn handler(
        platform: &Platform,
        pod: &Pod,
        mut command: Command,
        port: u16,
        arguments: &[&str],
    ) -> anyhow::Result<Self> {
        let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).context("the pod has no IP")?;
        command.args(["--bind", &ip, "--port", &port.to_string()]).args(arguments);
        let app = Self::spawn(platform, pod, command)?;
        app.process.wait_for_log(START, "listening on").await?;
        Ok(app)
    }

    /// The side-car, with the token that is bound to the pod.
    ///
    /// # Errors
    ///
    /// Fails when it does not start.
    pub async fn agent(platform: &Platform, pod: &Pod, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(platform.programs().binary("evacuation-agent"));
        command.env("KUBECONFIG", pod_kubeconfig(platform, pod).await?).arg("run").args(arguments);
        let app = Self::spawn(platform, pod, command)?;
        app.process.wait_for_log(START, "waiting for questions").await?;
        Ok(app)
    }

    fn spawn(platform: &Platform, pod: &Pod, command: Command) -> anyhow::Result<Self> {
        let name = format!("app-{}-{}", pod.namespace().unwrap_or_default(), pod.name_any());
        Ok(Self { process: Process::spawn(name, command, &platform.control_plane().logs())? })
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Waits until the app has printed that text.
    ///
    /// # Errors
    ///
    /// Fails when it does not.
    pub async fn says(&self, text: &str) -> anyhow::Result<()> {
        Ok(self.process.wait_for_log(Duration::from_mins(2), text).await?)
    }
}

/// A client as the app in the pod has it: with the token that is bound to the pod, in the pod's namespace.
///
/// # Errors
///
/// Fails when there is no such pod.
pub async fn pod_client(platform: &Platform, pod: &Pod) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(pod_kubeconfig(platform, pod).await?)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(machinery_client::client(config)?)
}

/// A kubeconfig with a token of the pod's service account that is bound to the pod, as a kubelet mounts it.
pub(crate) async fn pod_kubeconfig(platform: &Platform, pod: &Pod) -> anyhow::Result<PathBuf> {
    let namespace = pod.namespace().context("the pod has no namespace")?;
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
    let account = account.unwrap_or_else(|| "default".to_owned());
    let (name, uid) = (pod.name_any(), pod.uid().context("the pod has no UID")?);
    let control_plane = platform.control_plane();
    let token = control_plane.service_account_token(&namespace, &account, Some((&name, &uid))).await?;
    write_kubeconfig(control_plane, &format!("{namespace}-{name}-{uid}"), &token, &namespace)
}
