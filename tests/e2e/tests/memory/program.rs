//! The real programs, with a client of the played API.

use std::{path::PathBuf, process::Command};

use controlplane::{Pki, Process, free_port};
use evacuation_e2e::Programs;
use tempfile::TempDir;

use crate::limit::memory_limit;

/// A program that keeps objects of tenants.
pub(crate) enum Program {
    Controller,
    Gateway,
}

/// A running program.
pub(crate) struct Running {
    pub(crate) process: Process,
    _folder: TempDir,
}

impl Program {
    /// The memory limit in bytes of its Deployment.
    pub(crate) fn memory_limit(&self) -> u64 {
        memory_limit(match self {
            Self::Controller => "deploy/base/workloads/controller.yaml",
            Self::Gateway => "deploy/components/gateway/workload.yaml",
        })
    }

    /// Starts it as a client of that port, with those flags more.
    pub(crate) fn start(&self, port: u16, flags: &[&str]) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| -> PathBuf {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let kubeconfig = file("kubeconfig", kubeconfig(port));
        let programs = Programs::find().unwrap();
        let name = match self {
            Self::Controller => "evacuation-controller",
            Self::Gateway => "evacuation-gateway",
        };
        let mut command = Command::new(programs.binary(name));
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--metrics-address=127.0.0.1:{}", free_port().unwrap()))
            .args(flags);
        if matches!(self, Self::Gateway) {
            let serving = Pki::new("test").unwrap().serving(&["localhost"]).unwrap();
            let serving = serving.write(folder.path(), "serving").unwrap();
            let configuration = file(
                "gateway.yaml",
                "apiVersion: gateway.evacuation.dev/v1alpha1\nkind: GatewayConfiguration\n".to_owned(),
            );
            command
                .arg(format!("--config={}", configuration.display()))
                .arg(format!("--address=127.0.0.1:{}", free_port().unwrap()))
                .arg(format!("--warnings-address=127.0.0.1:{}", free_port().unwrap()))
                .arg(format!("--tls-cert-file={}", serving.certificate.display()))
                .arg(format!("--tls-private-key-file={}", serving.key.display()));
        }
        let process = Process::spawn(name, command, folder.path()).unwrap();
        Running { process, _folder: folder }
    }
}

fn kubeconfig(port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\nusers: \
         [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    )
}
