//! The programs that act through the API server: the controllers, the scheduler, the kubelets' stand-in.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::access::{Access, Credentials};
use crate::apiserver::Certificates;
use crate::builder::Builder;
use crate::component::Readiness;
use crate::pki::write;
use crate::{Binaries, Component, Folder, Process, Program, Result, free_port};

/// Starts the programs that act through the API server.
pub(crate) struct Actors<'a> {
    pub(crate) binaries: &'a Binaries,
    pub(crate) folder: &'a Folder,
    pub(crate) certificates: &'a Certificates,
    pub(crate) access: &'a Access,
    pub(crate) options: &'a Builder,
}

impl Actors<'_> {
    /// Every controller that is on by default, each under its own service account.
    pub(crate) fn controller_manager(&self) -> Result<Component> {
        let kubeconfig = self.kubeconfig("system:kube-controller-manager", None)?;
        let (mut command, port) = self.command(Program::KubeControllerManager, &kubeconfig)?;
        command
            .args(["--use-service-account-credentials=true", "--kube-api-qps=200", "--kube-api-burst=400"])
            .arg("--root-ca-file")
            .arg(&self.certificates.cluster_ca)
            .arg("--service-account-private-key-file")
            .arg(&self.certificates.service_account_key)
            .args(&self.options.controller_manager_args);
        self.spawn(Program::KubeControllerManager, command, Readiness::Listens { port })
    }

    pub(crate) fn scheduler(&self) -> Result<Component> {
        let kubeconfig = self.kubeconfig("system:kube-scheduler", None)?;
        let (mut command, port) = self.command(Program::KubeScheduler, &kubeconfig)?;
        command.args(["--kube-api-qps=200", "--kube-api-burst=400"]).args(&self.options.scheduler_args);
        self.spawn(Program::KubeScheduler, command, Readiness::Listens { port })
    }

    /// Plays the nodes that carry its annotation and the pods on them. `network` is the second number of
    /// the pods' addresses.
    pub(crate) fn kwok(&self, network: u16) -> Result<Component> {
        let kubeconfig = self.kubeconfig("kwok", Some("system:masters"))?;
        let stages = self.folder.path().join("kwok.yaml");
        write(&stages, &stages_for(self.options))?;
        let mut command = Command::new(self.binaries.path(Program::Kwok));
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--config")
            .arg(stages)
            .args(["--cidr", &format!("{}.{network}.0.0/16", self.options.pod_range)]);
        self.spawn(Program::Kwok, command, Readiness::Unknown)
    }

    /// Arguments that the controller manager and the scheduler share.
    fn command(&self, program: Program, kubeconfig: &Path) -> Result<(Command, u16)> {
        let port = free_port()?;
        let mut command = Command::new(self.binaries.path(program));
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--bind-address", "127.0.0.1", "--secure-port", &port.to_string()])
            .arg("--tls-cert-file")
            .arg(&self.certificates.serving.certificate)
            .arg("--tls-private-key-file")
            .arg(&self.certificates.serving.key)
            // There is one of each, and nobody asks it for metrics.
            .args(["--leader-elect=false", "--authentication-skip-lookup=true", "--profiling=false"]);
        if let Some(gates) = self.options.feature_gate_argument() {
            command.arg(gates);
        }
        Ok((command, port))
    }

    fn kubeconfig(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let identity = self.certificates.cluster.client(user, group)?;
        let path = self.certificates.folder.join(format!("{}.kubeconfig", user.replace(':', "-")));
        self.access.write(&path, user, &Credentials::Certificate(&identity))?;
        Ok(path)
    }

    fn spawn(&self, program: Program, mut command: Command, readiness: Readiness) -> Result<Component> {
        // kwok reads `~/.kwok`, which is none of this control plane's business.
        command.env("HOME", self.folder.path());
        let process = Process::spawn(program.name(), command, &self.folder.subfolder("logs")?)?;
        Ok(Component::new(process, readiness))
    }
}

fn stages_for(options: &Builder) -> String {
    let milliseconds = |duration: Duration| duration.as_millis().to_string();
    include_str!("files/stages.yaml")
        .replace("$READY_FROM", &milliseconds(options.pod_ready_after.start))
        .replace("$READY_TO", &milliseconds(options.pod_ready_after.end))
        .replace("$GONE_FROM", &milliseconds(options.pod_gone_after.start))
        .replace("$GONE_TO", &milliseconds(options.pod_gone_after.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stages_are_complete_and_take_their_durations_from_the_options() {
        let options = Builder::default().pod_gone_after(Duration::from_millis(70)..Duration::from_millis(90));
        let text = stages_for(&options);
        assert!(!text.contains("$READY") && !text.contains("$GONE"), "{text}");
        let documents: Vec<serde_json::Value> =
            text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect();
        let delay = |name: &str| {
            let stage = documents.iter().find(|stage| stage["metadata"]["name"] == name).unwrap();
            let delay = &stage["spec"]["delay"];
            (
                delay["durationMilliseconds"].as_u64().unwrap(),
                delay["jitterDurationMilliseconds"].as_u64().unwrap(),
            )
        };
        assert_eq!(delay("pod-running"), (1000, 2000));
        assert_eq!(delay("pod-gone"), (70, 90));
    }
}
