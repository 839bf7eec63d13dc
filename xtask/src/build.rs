//! Building what the demo, the tests and the benchmarks start: our own programs by cargo, Kubernetes by Go,
//! at the same time.

use std::{
    path::PathBuf,
    process::{Child, Stdio},
};

use anyhow::{Context, bail};

use crate::{
    bounded::watch,
    command::{cargo, output, root, run},
    suites::{self, Suite},
};

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
    let control_plane = start_control_plane()?;
    let programs = build_programs(profile)?;
    Ok(Built { programs, control_plane: finish_control_plane(control_plane)? })
}

/// Builds the project's own programs, and returns their folder.
fn build_programs(profile: Profile) -> anyhow::Result<PathBuf> {
    run(cargo()?.args(["build", "--workspace", "--bins", "--examples"]).args(profile.arguments()))?;
    Ok(target_folder()?.join(profile.folder()))
}

/// Builds everything that the tests need: the programs, and the test programs while Go still builds
/// Kubernetes.
///
/// # Errors
///
/// Fails when cargo or Go does.
pub(crate) fn build_tests() -> anyhow::Result<(Built, Vec<Suite>)> {
    let control_plane = start_control_plane()?;
    let programs = build_programs(Profile::Dev)?;
    let suites = suites::build()?;
    Ok((Built { programs, control_plane: finish_control_plane(control_plane)? }, suites))
}

/// Builds only Kubernetes, and returns the folder of its programs.
///
/// # Errors
///
/// Fails when cargo or Go does.
pub(crate) fn build_control_plane() -> anyhow::Result<PathBuf> {
    finish_control_plane(start_control_plane()?)
}

/// Starts the builder of the control plane: a program of ours, which is compiled first and then works beside
/// cargo.
fn start_control_plane() -> anyhow::Result<Child> {
    eprintln!("building; the first time this takes minutes, Kubernetes itself most of them");
    // Of the whole workspace, so that shared dependencies are built once with the features that all need.
    run(cargo()?.args(["build", "--workspace", "--bin", "controlplane"]))?;
    let builder = target_folder()?.join("debug/controlplane");
    let mut builder = crate::command::command(&builder.display().to_string())?;
    let started = builder.arg("binaries").stdout(Stdio::piped()).spawn();
    let mut started = started.context("the builder of the control plane did not start")?;
    // It ends when cargo fails, and Go with it.
    watch(&mut started).context("the builder of the control plane cannot be watched over")?;
    Ok(started)
}

/// Waits for the builder of the control plane. It prints the folder of the programs.
fn finish_control_plane(builder: Child) -> anyhow::Result<PathBuf> {
    let pid = builder.id();
    let built = builder.wait_with_output().context("the builder of the control plane was lost")?;
    reaper::forget_process(pid);
    if !built.status.success() {
        bail!("the control plane was not built: {}", built.status);
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&built.stdout).trim()))
}

/// Cargo's target folder.
pub(crate) fn target_folder() -> anyhow::Result<PathBuf> {
    let metadata = output(cargo()?.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata).context("cargo metadata is JSON")?;
    let folder = metadata.get("target_directory").and_then(serde_json::Value::as_str);
    Ok(folder.map_or(root()?.join("target"), PathBuf::from))
}
