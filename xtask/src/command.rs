//! Running other programs.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

/// The project's root.
pub(crate) fn root() -> anyhow::Result<PathBuf> {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let root = manifest.parent().context("xtask lies in the project's root")?;
    Ok(root.to_owned())
}

/// A command that runs in the project's root and reads nothing.
pub(crate) fn command(program: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(program);
    command.current_dir(root()?).stdin(Stdio::null());
    Ok(command)
}

/// The cargo that runs this.
pub(crate) fn cargo() -> anyhow::Result<Command> {
    command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
}

/// Runs a command to its end; anything but success is an error that names it.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("{command:?} did not start"))?;
    if !status.success() {
        bail!("{command:?} failed: {status}");
    }
    Ok(())
}

/// Runs a command to its end and returns what it printed.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("{command:?} did not start"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
