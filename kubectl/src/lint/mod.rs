//! `kubectl evacuate lint -f FILE`

mod check;
mod files;
mod kinds;

use std::{collections::BTreeSet, path::PathBuf};

use clap::Args;

use crate::{Exit, complaint::complaint, documents::documents, output::say};
use check::check;
use files::{manifests, read};

/// Check manifests before they reach a cluster: pods, pod templates and the objects of evacuation.dev.
///
/// Each problem is one line on standard output, with the file, the object and the field: annotations that
/// cannot be read, responders that do not exist, and Evacuations, EvacuationResponders, NodeEvacuations and
/// NodeEvacuationRules that the server would refuse. No cluster is needed, so rights, quotas and what exists
/// are not checked.
///
/// Exit codes: 0 no problem, 1 a problem or a file that cannot be read.
#[derive(Args, Debug)]
pub struct Lint {
    /// A file, a directory of .yaml, .yml and .json files, or - for standard input. Can be given several
    /// times.
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,
    /// Read the directories below each directory, too.
    #[arg(short = 'R', long)]
    recursive: bool,
}

impl Lint {
    /// Carries the command out.
    ///
    /// # Errors
    ///
    /// A directory cannot be listed, or the output cannot be written. A file that cannot be read is a
    /// problem.
    pub fn run(self) -> anyhow::Result<Exit> {
        let (mut objects, mut problems) = (Checked::default(), 0);
        for file in manifests(&self.filename, self.recursive)? {
            for line in lint(&file, &mut objects) {
                problems += 1;
                say(format_args!("{}: {line}", file.display()))?;
            }
        }
        if problems > 0 {
            return Ok(Exit::Errors);
        }
        say(format_args!("{}", objects.summary()))?;
        Ok(Exit::Done)
    }
}

/// Objects of the files.
#[derive(Debug, Default)]
struct Checked {
    /// Number of those that were checked.
    number: usize,
    /// Kinds of the project's domains that are no objects of a cluster.
    unchecked: BTreeSet<String>,
}

impl Checked {
    /// Returns the line for files without a problem.
    fn summary(&self) -> String {
        let objects = if self.number == 1 { "object" } else { "objects" };
        let mut line = format!("no problem, {} {objects} checked", self.number);
        if !self.unchecked.is_empty() {
            let kinds: Vec<_> = self.unchecked.iter().map(String::as_str).collect();
            line.push_str("; not checked: ");
            line.push_str(&kinds.join(", "));
        }
        line
    }
}

/// Returns the problems of one file, and counts its objects.
fn lint(file: &std::path::Path, objects: &mut Checked) -> Vec<String> {
    let text = match read(file) {
        Ok(text) => text,
        Err(error) => return vec![complaint(&error)],
    };
    let mut problems = Vec::new();
    for (index, document) in documents(&text).enumerate() {
        match document {
            Err(error) => problems.push(format!("document {}: {error}", index + 1)),
            Ok(document) => check(&document, index + 1, objects, &mut problems),
        }
    }
    problems
}

#[cfg(test)]
mod tests;
