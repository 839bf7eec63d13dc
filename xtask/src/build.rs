//! Building what the demo, the tests and the benchmarks start: our own programs by cargo, Kubernetes by Go,
//! at the same time.

use std::{path::PathBuf, process::Stdio};

use anyhow::{Context, bail};

use crate::command::{cargo, output, root, run};

/// Folders of the builds.
pub(crate) struct Built {
    /// The folder of our own programs.
    pub(crate) programs: PathBuf,
    /// The folder of etcd, kube-apiserver and the others.
    pub(crate) control_plane: PathBuf,
}

/// Cargo profile of the project's own programs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Dev,
    Release,
}

impl Profile {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Dev => &[],
            Self::Release => &["--release"],
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// Builds everything.
///
/// # Errors
///
/// Fails when cargo or Go does.
pub(crate) fn build(profile: Profile) -> anyhow::Result<Built> {
    // The builder of the control plane is a program of ours: it is compiled first, then works beside cargo.
    eprintln!("building; the first time this takes minutes, Kubernetes itself most of them");
    run(cargo()?.args(["build", "--quiet", "--package", "controlplane", "--bins"]))?;
    let target = target_folder()?;
    let mut control_plane =
        crate::command::command(&target.join("debug/controlplane").display().to_string())?;
    let control_plane = control_plane.arg("binaries").stdout(Stdio::piped()).spawn();
    let control_plane = control_plane.context("the builder of the control plane did not start")?;
    run(cargo()?
        .args(["build", "--quiet", "--workspace", "--bins", "--examples"])
        .args(profile.arguments()))?;
    let built = control_plane.wait_with_output().context("the builder of the control plane was lost")?;
    if !built.status.success() {
        bail!("the control plane was not built: {}", built.status);
    }
    let control_plane = PathBuf::from(String::from_utf8_lossy(&built.stdout).trim());
    Ok(Built { programs: target.join(profile.folder()), control_plane })
}

/// Cargo's target folder.
pub(crate) fn target_folder() -> anyhow::Result<PathBuf> {
    let metadata = output(cargo()?.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata).context("cargo metadata is JSON")?;
    let folder = metadata.get("target_directory").and_then(serde_json::Value::as_str);
    Ok(folder.map_or(root()?.join("target"), PathBuf::from))
}
