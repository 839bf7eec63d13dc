//! `cargo xtask check`

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Context;
use clap::Args;

use crate::{
    attack,
    command::{cargo, command, root, run, silent},
    cycles, generate,
    passed::Passed,
    prerequisites,
    report::Report,
    words,
};

/// The version of cargo-deny that is installed where there is none.
const CARGO_DENY: &str = "0.20.2";
/// Command that repeats a check of [`cheap`].
const CHEAP: &str = "cargo xtask check --cheap";

/// Format, dependencies between modules, comments, lints, documentation, licences.
#[derive(Args)]
pub(crate) struct Check {
    /// Only what takes seconds: format, circles of modules, comments, the catalogue of attacks.
    #[arg(long)]
    cheap: bool,
}

impl Check {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        prerequisites::ensure()?;
        let mut report = Report::default();
        cheap(&mut report);
        if !self.cheap {
            lints(&mut report);
            rest(&mut report);
        }
        report.end("")
    }
}

/// Checks that build nothing and take seconds.
pub(crate) fn cheap(report: &mut Report) {
    report.stage("format", "cargo fmt --all", |_| silent(cargo()?.args(["fmt", "--all", "--check"])));
    report.stage("circles of modules", CHEAP, |_| cycles::check(&root()?));
    report.stage("comments", "cargo xtask words", |_| words::check(&root()?));
    report.stage("catalogue of attacks", "cargo xtask attack --write", |_| attack::check());
}

/// The lints of all targets.
pub(crate) fn lints(report: &mut Report) {
    let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    report.stage("lints", &format!("cargo {}", arguments.join(" ")), |_| silent(cargo()?.args(arguments)));
}

/// Documentation and licences, where something that they read has changed since they passed, and the files
/// that are made from the code.
pub(crate) fn rest(report: &mut Report) {
    report.stage("generated files", "cargo xtask generate", |_| generate::check());
    report.stage("documentation", "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps", |_| {
        let reads = |path: &Path| has_extension(path, &["rs", "toml", "lock", "md"]);
        unless_passed("documentation", "1", reads, || {
            let mut doc = cargo()?;
            doc.args(["doc", "--quiet", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
            silent(&mut doc)
        })
    });
    report.stage("licences", "cargo deny check bans licenses sources", |_| {
        let reads = |path: &Path| has_extension(path, &["toml", "lock"]);
        let arguments = ["--offline", "check", "bans", "licenses", "sources"];
        unless_passed("licences", &[&[CARGO_DENY], arguments.as_slice()].concat().join(" "), reads, || {
            // The crates of other platforms are never built here, but cargo-deny reads their manifests.
            run(cargo()?.args(["fetch", "--quiet", "--locked"]))?;
            let mut deny = command(&cargo_deny()?.display().to_string())?;
            silent(deny.args(arguments))
        })
    });
}

fn has_extension(path: &Path, known: &[&str]) -> bool {
    path.extension().is_some_and(|extension| known.iter().any(|known| extension == *known))
}

/// Runs a check, unless it passed the same files last time on this machine.
fn unless_passed(
    check: &str,
    version: &str,
    reads: impl Fn(&Path) -> bool,
    work: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Ok(cache) = cache_folder() else {
        return work();
    };
    let passed = Passed::of(check, version, &root()?, &cache, reads)?;
    if passed.is_known() {
        println!("nothing that it reads has changed since it passed");
        return Ok(());
    }
    work()?;
    if let Err(error) = passed.remember() {
        println!("it will run again, because its success cannot be remembered: {error:#}");
    }
    Ok(())
}

/// cargo-deny: the one on PATH, else one that is installed into the user's cache folder.
fn cargo_deny() -> anyhow::Result<PathBuf> {
    let works = |path: &Path| {
        let mut probe = Command::new(path);
        probe.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
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
        // Its release profile has link-time optimisation, which a check of a second does not need.
        install.args(["install", "--debug", "cargo-deny", "--locked", "--version", CARGO_DENY]);
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
