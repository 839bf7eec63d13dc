//! `cargo xtask attack`: the catalogue of attacks, read from the tests that play them.

mod annotation;
mod page;

use std::{collections::HashSet, fs, path::Path};

use anyhow::{Context, bail};
use clap::Args;

use self::annotation::{Attack, PROMISES, attacks};
use crate::command::{command, output, root};

/// The page that is made from the catalogue.
const PAGE: &str = "docs/reference/threats.md";

/// Print the catalogue of attacks: who does what, against which promise, and the test that plays it.
#[derive(Args)]
pub(crate) struct Catalogue {
    /// Only the attacks on this promise.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=i64::from(PROMISES)))]
    promise: Option<u8>,
    /// Write the page of threats, as `cargo xtask generate` does among others: nothing is built for it.
    #[arg(long, conflicts_with = "promise")]
    write: bool,
}

impl Catalogue {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if self.write {
            return write();
        }
        let mut attacks = catalogue(&root()?)?;
        attacks.retain(|attack| self.promise.is_none_or(|promise| attack.promises.contains(&promise)));
        for attack in &attacks {
            let promises: Vec<_> = attack.promises.iter().map(ToString::to_string).collect();
            println!(
                "{:>5}  {} {}\n       {} ({})",
                promises.join(","),
                attack.attacker,
                attack.act,
                attack.test,
                attack.file
            );
        }
        println!("{} attacks", attacks.len());
        Ok(())
    }
}

/// Writes the page of threats.
pub(crate) fn write() -> anyhow::Result<()> {
    let root = root()?;
    fs::write(root.join(PAGE), page::page(&catalogue(&root)?)?).with_context(|| format!("{PAGE} not written"))
}

/// Fails when the page of threats is not up to date.
pub(crate) fn check() -> anyhow::Result<()> {
    let root = root()?;
    let written = fs::read_to_string(root.join(PAGE)).with_context(|| format!("{PAGE} cannot be read"))?;
    if written != page::page(&catalogue(&root)?)? {
        bail!("{PAGE} is not up to date: run `cargo xtask attack --write`");
    }
    Ok(())
}

/// Returns the attacks of all tests, by promise and file.
fn catalogue(root: &Path) -> anyhow::Result<Vec<Attack>> {
    let files = output(command("git")?.args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        "*.rs",
        ":!xtask/src/attack",
    ]))?;
    let mut all = Vec::new();
    for file in files.lines() {
        let text = match fs::read_to_string(root.join(file)) {
            Ok(text) => text,
            // Removed, and not committed yet.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("{file} cannot be read")),
        };
        match attacks(file, &text) {
            Ok(found) => all.extend(found),
            Err(problem) => bail!("{}:{}: {}", problem.file, problem.line, problem.message),
        }
    }
    let mut names = HashSet::new();
    if let Some(twice) = all.iter().find(|attack| !names.insert((&attack.file, &attack.test))) {
        bail!("{}: {} describes its attack twice", twice.file, twice.test);
    }
    all.sort_by(|one, other| (&one.promises, &one.file).cmp(&(&other.promises, &other.file)));
    Ok(all)
}
