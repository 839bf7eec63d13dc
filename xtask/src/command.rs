//! Running other programs.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};

use crate::bounded::run_within;

/// Maximum time of a command whose output is kept.
const LIMIT: Duration = Duration::from_mins(30);

/// The project's root: the folder from which cargo runs this, also after the project was moved.
pub(crate) fn root() -> anyhow::Result<PathBuf> {
    let running = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let running = running.filter(|folder| folder.ends_with("xtask"));
    let manifest = running.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    let root = manifest.parent().context("xtask lies in the project's root")?;
    Ok(root.to_owned())
}

/// A command that runs in the project's root and reads nothing.
pub(crate) fn command(program: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(program);
    command.current_dir(root()?).stdin(Stdio::null());
    Ok(command)
}

/// The cargo that runs this, without what it told this program about its package. Build scripts that watch
/// those variables (ring's does) would run again, with all that depends on them, whenever a developer changes
/// between `cargo` and `cargo xtask`.
pub(crate) fn cargo() -> anyhow::Result<Command> {
    let mut cargo = command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))?;
    for (name, _) in std::env::vars_os() {
        let of_this_package = name.to_str().is_some_and(|name| {
            ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_BIN_", "CARGO_CRATE_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        });
        if of_this_package {
            cargo.env_remove(name);
        }
    }
    Ok(cargo)
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

/// Runs a command whose output is of interest only when it fails. The error is its output.
pub(crate) fn silent(command: &mut Command) -> anyhow::Result<()> {
    let ended = run_within(command, LIMIT)?;
    if !ended.end.is_success() {
        println!("{}", ended.text);
        bail!("{}\n{}", ended.end, ended.text.trim());
    }
    Ok(())
}
