//! Kubernetes' sample API server, built from its Go module.

use std::process::Command;

use controlplane::{Etcd, GoTool, Process, free_port};
use evacuation_e2e::Platform;

use super::{contestant::Contestant, kinds};

/// The program.
const SAMPLE: GoTool = GoTool {
    name: "sample-apiserver",
    package: "k8s.io/sample-apiserver",
    module: None,
    toolchain: None,
    linker_flags: None,
    files: &[
        ("go.mod", include_str!("../../../../peers/sample-apiserver/go.mod")),
        ("go.sum", include_str!("../../../../peers/sample-apiserver/go.sum")),
    ],
};

/// A running program and its store. They stop when it is dropped.
pub(super) struct Running {
    process: Process,
    _etcd: Etcd,
}

impl Running {
    /// The process of the server.
    pub(super) fn process(&self) -> &Process {
        &self.process
    }
}

/// Starts it with an etcd of its own. It is called directly, as our API server is.
pub(super) async fn start(platform: &Platform) -> anyhow::Result<(Contestant, Running)> {
    let built = tokio::task::spawn_blocking(|| SAMPLE.build()).await??;
    let control_plane = platform.control_plane();
    let etcd = Etcd::start().await?;
    let folder = control_plane.folder().subfolder("sample-apiserver")?;
    let serving = control_plane.pki().serving(&["localhost", "127.0.0.1"])?.write(&folder, "serving")?;
    let (port, kubeconfig) = (free_port()?, control_plane.kubeconfig());
    let mut command = Command::new(built.program);
    command.args([
        format!("--etcd-servers={}", etcd.endpoint()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", serving.certificate.display()),
        format!("--tls-private-key-file={}", serving.key.display()),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--authentication-kubeconfig={}", kubeconfig.display()),
        format!("--authorization-kubeconfig={}", kubeconfig.display()),
    ]);
    let process = Process::spawn("sample-apiserver", command, &control_plane.logs())?;
    let contestant = Contestant::new(control_plane, port, &process, kinds::SAMPLE).await?;
    Ok((contestant, Running { process, _etcd: etcd }))
}
