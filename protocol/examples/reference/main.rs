//! Writes `docs/reference/`: what is made from the types and the tables, so that it cannot say otherwise.
//!
//! `cargo xtask generate` runs it; with `--check` nothing is written, and a file that is not up to date is an
//! error.

mod fields;
mod states;
mod words;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

fn main() -> ExitCode {
    let check = std::env::args().any(|argument| argument == "--check");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference");
    let pages = [("api.md", fields::page()), ("states.md", states::page()), ("words.md", words::page())];
    let mut good = true;
    for (name, text) in pages {
        good &= keep(&folder.join(name), &text, check);
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes a page, or says that it differs.
fn keep(file: &PathBuf, text: &str, check: bool) -> bool {
    if std::fs::read_to_string(file).is_ok_and(|old| old == text) {
        return true;
    }
    if check {
        eprintln!("{} is not up to date: run cargo xtask generate", file.display());
        return false;
    }
    match std::fs::write(file, text) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("{} cannot be written: {error}", file.display());
            false
        }
    }
}
