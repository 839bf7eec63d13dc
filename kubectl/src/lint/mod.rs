//! `kubectl evacuate lint -f FILE`

mod check;
mod checked;
mod files;
mod hindrance;
mod kinds;
mod text;
mod tool;

use std::{env, path::PathBuf};

use clap::Args;

use crate::{Exit, complaint::complaint, documents::documents, output::say, plain::plain};
use check::{check, foreign};
use checked::Checked;
use files::{Input, inputs};
use text::{decode, read};
use tool::{LIMITS, Tools};

/// Check manifests before they reach a cluster: pods, pod templates and the objects of evacuation.dev.
///
/// Each problem is one line on standard output, with the file, the object and the field: annotations that
/// cannot be read, responders that do not exist, Evacuations, EvacuationResponders, NodeEvacuations and
/// NodeEvacuationRules that the server would refuse, and a GatewayConfiguration or NegotiationSettings, as a
/// file or in a ConfigMap, with which the gateway or the API server would not start. No cluster is needed, so
/// rights, quotas and what exists are not checked.
///
/// A directory with a kustomization or a Helm chart is rendered if kustomize, kubectl or helm is on the PATH.
/// Files of a directory that hold no object are named in the last line, and are no problem.
///
/// Exit codes: 0 no problem, 1 a problem or a file that cannot be read.
#[derive(Args, Debug)]
pub struct Lint {
    /// A file, a directory of .yaml, .yml and .json files, or - for standard input. Can be given several
    /// times. Hidden files of a directory are left out.
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
    /// A directory cannot be listed, or the output cannot be written. A file that cannot be read, and a
    /// directory that cannot be rendered, is a problem.
    pub fn run(self) -> anyhow::Result<Exit> {
        let tools = Tools::of_path(&env::var_os("PATH").unwrap_or_default());
        let (mut checked, mut problems) = (Checked::default(), 0);
        for input in inputs(&self.filename, self.recursive, &tools)? {
            let name = name(&input);
            for line in lint(&input, &mut checked) {
                problems += 1;
                say(format_args!("{name}: {line}"))?;
            }
        }
        if let Some(summary) = checked.summary(problems) {
            say(format_args!("{summary}"))?;
        }
        Ok(if problems > 0 { Exit::Errors } else { Exit::Done })
    }
}

/// Returns the name of an input in the output.
fn name(input: &Input) -> String {
    let (Input::Named(path) | Input::Found(path) | Input::Rendered(path, _) | Input::Left(path, _)) = input;
    plain(&path.display().to_string())
}

/// Returns the problems of one input, and counts its objects.
fn lint(input: &Input, checked: &mut Checked) -> Vec<String> {
    let text = match input {
        Input::Named(path) | Input::Found(path) => read(path).map_err(anyhow::Error::from),
        Input::Rendered(folder, tool) => {
            let output = tool.render(folder, &LIMITS).map_err(anyhow::Error::from);
            output.and_then(|output| Ok(decode(&output, LIMITS.bytes)?))
        }
        Input::Left(_, reason) => {
            checked.leave_input(format!("{} ({reason})", name(input)));
            return Vec::new();
        }
    };
    match text {
        Ok(text) => lint_text(&text, input, checked),
        Err(error) => vec![complaint(&error)],
    }
}

/// Returns the problems of a text. A document that is no object is a problem only in a file that a flag
/// names: the files of a directory can be of other programs.
fn lint_text(text: &str, input: &Input, checked: &mut Checked) -> Vec<String> {
    let is_named = matches!(input, Input::Named(_));
    let (mut problems, mut is_empty) = (Vec::new(), true);
    for (index, document) in documents(text).enumerate() {
        let number = index + 1;
        match document {
            // As kubectl, which skips documents without content.
            Ok(document) if document.value.is_null() => continue,
            Ok(document) => match foreign(&document.value) {
                None => check(&document, text, number, checked, &mut problems),
                Some(_) if !is_named => checked.leave_input(name(input)),
                Some(reason) => {
                    problems.push(format!("document {number}: is not an object of Kubernetes: {reason}"));
                }
            },
            Err(error) => problems.push(format!("document {number}: {error}")),
        }
        is_empty = false;
    }
    if is_named && is_empty {
        problems.push("holds no object of Kubernetes".to_owned());
    }
    problems
}

#[cfg(test)]
mod tests;
