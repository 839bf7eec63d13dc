//! Writes `docs/reference/callers.md` from the built-in table of callers. With `--check` nothing is written,
//! and a page that is not up to date is an error.

use std::path::Path;

use anyhow::{Context, ensure};

fn main() -> anyhow::Result<()> {
    let check = std::env::args().any(|argument| argument == "--check");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/callers.md");
    let text = evacuation_gateway::reference();
    if check {
        let old = std::fs::read_to_string(&page).unwrap_or_default();
        ensure!(old == text, "{} is not up to date: run cargo xtask generate", page.display());
        return Ok(());
    }
    std::fs::write(&page, text).with_context(|| format!("{} cannot be written", page.display()))
}
