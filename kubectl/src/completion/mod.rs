//! Completion in the shell, by kubectl's mechanism for plugins.
//!
//! kubectl runs the program `kubectl_complete-evacuate` with the words of the command line, and prints its
//! lines: candidates, each with a description after a tab, and a directive of cobra, such as `:4`.

mod names;
mod words;

use anyhow::Context;
use clap::{Args, Command};

use self::{
    names::names,
    words::{Found, complete},
};
use crate::{Exit, output::say, plain::plain};

/// The program that kubectl runs.
const SCRIPT: &str = "#!/bin/sh\nexec kubectl-evacuate __complete -- \"$@\"";
/// Directive: the shell completes no names of files.
const NO_FILES: &str = ":4";
/// Directive: the shell completes names of files where there is no candidate.
const FILES: &str = ":0";

/// Print the program kubectl_complete-evacuate, through which kubectl's completion completes this plugin.
///
/// Put it on your PATH, and make it executable:
///
///   kubectl evacuate completion > ~/.local/bin/kubectl_complete-evacuate
///
///   chmod +x ~/.local/bin/kubectl_complete-evacuate
///
/// kubectl's own completion must be on: see kubectl completion --help.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Completion {}

/// Print the candidates for the last word of a command line.
#[derive(Args, Debug)]
pub struct Complete {
    /// The words after `kubectl evacuate`. The last one, which can be empty, is completed.
    #[arg(value_name = "WORD", allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<String>,
}

impl Completion {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// Standard output is closed.
    pub fn run(self) -> anyhow::Result<Exit> {
        say(SCRIPT).context("the program cannot be printed")?;
        Ok(Exit::Done)
    }
}

impl Complete {
    /// Carries the command out for that command line. A cluster that cannot be reached gives no candidates.
    ///
    /// # Errors
    ///
    /// Standard output is closed.
    pub async fn run(self, mut root: Command) -> anyhow::Result<Exit> {
        root.build();
        let Found { mut candidates, wanted, connection, prefix, given } = complete(&root, &self.words);
        if let Some(wanted) = wanted {
            candidates.extend(names(wanted, &connection).await.into_iter().map(|name| (name, String::new())));
        }
        candidates.retain(|(word, _)| word.starts_with(&prefix) && !given.contains(word));
        for (word, help) in &candidates {
            say(plain(word) + if help.is_empty() { "" } else { "\t" } + &plain(help))?;
        }
        say(if wanted == Some(words::Wanted::Files) { FILES } else { NO_FILES })?;
        Ok(Exit::Done)
    }
}

#[cfg(test)]
mod tests;
