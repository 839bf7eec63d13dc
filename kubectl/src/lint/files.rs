//! Inputs of the check: the files and folders that the flags name.

use std::{
    collections::BTreeMap,
    fs::{self, FileType},
    io,
    path::{Path, PathBuf},
};

use super::{
    hindrance::{KUSTOMIZATIONS, SUBCHARTS, of_chart, of_kustomization, patches_of},
    tool::{Tool, Tools},
};

/// Description of a Helm chart, and folder of its templates.
const CHART: [&str; 2] = ["Chart.yaml", "templates"];

/// Directory that cannot be listed.
#[derive(Debug, thiserror::Error)]
#[error("directory {} cannot be listed", directory.display())]
pub(super) struct ListError {
    directory: PathBuf,
    source: io::Error,
}

/// Input of the check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// File that a flag names, or standard input for `-`.
    Named(PathBuf),
    /// File of a directory.
    Found(PathBuf),
    /// Directory that a tool renders.
    Rendered(PathBuf, Tool),
    /// File or directory that is not checked, and the reason.
    Left(PathBuf, &'static str),
}

/// Returns the inputs that the flags name. Of a directory these are what a tool renders, or else the
/// manifests in it, in the order of their names. Hidden files and directories, with a dot at the beginning of
/// their name, are left out.
pub(super) fn inputs(named: &[PathBuf], recursive: bool, tools: &Tools) -> Result<Vec<Input>, ListError> {
    let mut inputs = Vec::new();
    for path in named {
        if path.is_dir() {
            let root = path.canonicalize().map_err(|source| listing(path, source))?;
            let patches = BTreeMap::new();
            Walk { root: &root, recursive, tools, patches, inputs: &mut inputs }.add(path)?;
        } else {
            inputs.push(Input::Named(path.clone()));
        }
    }
    Ok(inputs)
}

fn listing(directory: &Path, source: io::Error) -> ListError {
    ListError { directory: directory.to_owned(), source }
}

/// Walk through a directory that a flag names.
struct Walk<'a> {
    /// The directory, without links.
    root: &'a Path,
    recursive: bool,
    tools: &'a Tools,
    /// Patches of the kustomizations so far, without links, and whether the kustomization is rendered with
    /// them. A kustomization reads no file outside of its folder, so it is walked before its patches.
    patches: BTreeMap<PathBuf, bool>,
    inputs: &'a mut Vec<Input>,
}

impl Walk<'_> {
    fn add(&mut self, directory: &Path) -> Result<(), ListError> {
        let entries = entries(directory).map_err(|source| listing(directory, source))?;
        let has = |name: &str| entries.iter().any(|(path, _)| path.ends_with(name));
        let kustomization = KUSTOMIZATIONS.into_iter().find(|name| has(name));
        let is_chart = CHART.into_iter().all(has);
        let mut is_rendered = false;
        if let Some(name) = kustomization {
            let tool = self.tools.kustomize.as_ref().ok_or("kustomize is not on the PATH");
            let tool = tool.and_then(|tool| of_kustomization(directory).map_or(Ok(tool), Err));
            is_rendered |= self.add_rendered(directory, name, tool);
            self.patches.extend(patches_of(directory).into_iter().map(|patch| (patch, is_rendered)));
        }
        let mut is_chart_rendered = false;
        if is_chart {
            let tool = self.tools.helm.as_ref().ok_or("helm is not on the PATH");
            let tool = tool.and_then(|tool| of_chart(directory).map_or(Ok(tool), Err));
            is_chart_rendered = self.add_rendered(directory, CHART[1], tool);
            is_rendered |= is_chart_rendered;
        }
        for (path, kind) in &entries {
            let is = |name: &str| path.ends_with(name);
            // A link to a directory is not followed: it can lead back.
            if kind.is_dir() {
                let is_of_chart = is_chart && is(CHART[1]) || is_chart_rendered && is(SUBCHARTS);
                if self.recursive && !is_of_chart {
                    self.add(path)?;
                }
            } else if !is_rendered && !kustomization.is_some_and(is) && is_manifest(path) {
                self.add_file(path, *kind);
            }
        }
        Ok(())
    }

    /// Adds a directory that the tool renders, or else `name` in it as not checked. Returns true if the tool
    /// renders it.
    fn add_rendered(&mut self, directory: &Path, name: &str, tool: Result<&Tool, &'static str>) -> bool {
        let is_rendered = tool.is_ok();
        self.inputs.push(match tool {
            Ok(tool) => Input::Rendered(directory.to_owned(), tool.clone()),
            Err(reason) => Input::Left(directory.join(name), reason),
        });
        is_rendered
    }

    /// Adds a file, or what a link leads to if it is in the directory that the flag names.
    fn add_file(&mut self, path: &Path, kind: FileType) {
        if kind.is_symlink()
            && let Ok(target) = path.canonicalize()
        {
            if target.is_dir() {
                return;
            }
            if !target.starts_with(self.root) {
                self.inputs.push(Input::Left(path.to_owned(), "a link out of the directory"));
                return;
            }
        }
        if let Some(is_rendered) = self.patch(path) {
            if !is_rendered {
                self.inputs.push(Input::Left(path.to_owned(), "a patch of kustomize"));
            }
            return;
        }
        // To read from a pipe or a device could last for ever. The error of a broken link is reported.
        if path.metadata().map_or(true, |metadata| metadata.is_file()) {
            self.inputs.push(Input::Found(path.to_owned()));
        }
    }

    /// Returns whether kustomize renders the patch. `None` for a file that is no patch.
    fn patch(&self, path: &Path) -> Option<bool> {
        if self.patches.is_empty() {
            return None;
        }
        self.patches.get(&path.canonicalize().ok()?).copied()
    }
}

/// Returns the entries of a directory that are not hidden, in the order of their names.
fn entries(directory: &Path) -> io::Result<Vec<(PathBuf, FileType)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            entries.push((entry.path(), entry.file_type()?));
        }
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(entries)
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known))
}

#[cfg(test)]
mod tests;
