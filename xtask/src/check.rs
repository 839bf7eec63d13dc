//! `cargo xtask check`

use std::path::{Path, PathBuf};

use crate::{
    command::{cargo, command, root, run},
    cycles, generate, prerequisites, words,
};
use anyhow::Context;

/// The version of cargo-deny that is installed where there is none.
const CARGO_DENY: &str = "0.20.2";

/// Format, dependencies between modules, comments, lints, documentation, licences.
pub(crate) fn check() -> anyhow::Result<()> {
    prerequisites::ensure()?;
    run(cargo()?.args(["fmt", "--all", "--check"]))?;
    // What takes a second comes first.
    cycles::check(&root()?)?;
    words::check(&root()?)?;
    run(cargo()?.args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    let mut doc = cargo()?;
    doc.args(["doc", "--quiet", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    run(&mut doc)?;
    // The crates of other platforms are never built here, but cargo-deny reads their manifests.
    run(cargo()?.args(["fetch", "--quiet", "--locked"]))?;
    let deny = cargo_deny()?;
    run(command(&deny.display().to_string())?.args(["--offline", "check", "bans", "licenses", "sources"]))?;
    generate::check()
}

/// cargo-deny: the one on PATH, else one that is installed into the user's cache folder.
fn cargo_deny() -> anyhow::Result<PathBuf> {
    let works = |path: &Path| {
        let mut probe = std::process::Command::new(path);
        probe.arg("--version").stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    let on_path = PathBuf::from("cargo-deny");
    if works(&on_path) {
        return Ok(on_path);
    }
    let tools = cache_folder()?.join("tools");
    let own = tools.join("bin/cargo-deny");
    if !works(&own) {
        eprintln!("installing cargo-deny {CARGO_DENY} (cargo install)");
        let mut install = cargo()?;
        install.args(["install", "cargo-deny", "--locked", "--version", CARGO_DENY]);
        run(install.arg("--root").arg(&tools))?;
    }
    Ok(own)
}

/// Folder that keeps tools between checkouts.
fn cache_folder() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::home_dir().map(|home| home.join(".cache"));
    Ok(cache.or_else(home).context("neither XDG_CACHE_HOME nor a home folder is known")?.join("evacuation"))
}
