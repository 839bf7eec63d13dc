//! Suites that a change can touch.

mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde_json::Value;

use self::table::{Touches, touches};
use crate::command::{cargo, command, output};

/// Suites that a change can touch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Folders of the packages that changed, and of those that depend on them.
    folders: BTreeSet<PathBuf>,
    /// End-to-end suites. None for all of them.
    end_to_end: Option<BTreeSet<String>>,
}

impl Change {
    /// Compares the working tree, new files included, with the last common commit of HEAD and `base`.
    ///
    /// # Errors
    ///
    /// Fails outside a git repository, or when `base` names no commit.
    pub(crate) fn since(base: &str) -> anyhow::Result<Self> {
        let common = output(command("git")?.args(["merge-base", base, "HEAD"]))?;
        let changed = output(command("git")?.args(["diff", "--name-only", "--no-renames", &common]))?;
        let new = output(command("git")?.args(["ls-files", "--others", "--exclude-standard"]))?;
        let metadata =
            output(cargo()?.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]))?;
        let metadata = serde_json::from_str(&metadata).context("cargo metadata is JSON")?;
        Ok(Self::of(&changed.lines().chain(new.lines()).collect::<Vec<_>>(), &Packages::of(&metadata)))
    }

    fn of(files: &[&str], packages: &Packages) -> Self {
        let mut change = Self { folders: BTreeSet::new(), end_to_end: Some(BTreeSet::new()) };
        for file in files {
            match packages.folder_of(Path::new(file)) {
                Some(folder) => packages.add_with_dependents(folder, &mut change.folders),
                // Such as the lock file, or manifests that programs contain.
                None if touches(file).0 == Touches::All => change.folders.extend(packages.0.keys().cloned()),
                None => {}
            }
            let (touched, own) = touches(file);
            match (touched, &mut change.end_to_end) {
                (Touches::All, all) => *all = None,
                (Touches::Only(suites), Some(known)) => {
                    known.extend(suites.iter().copied().chain(own).map(str::to_owned));
                }
                (Touches::Only(_), None) => {}
            }
        }
        change
    }

    /// Returns true when the change can touch tests without a cluster in this folder below the root.
    pub(crate) fn has_package(&self, folder: &Path) -> bool {
        self.folders.contains(folder)
    }

    /// Returns true when the change can touch this end-to-end suite.
    pub(crate) fn has_suite(&self, name: &str) -> bool {
        self.end_to_end.as_ref().is_none_or(|suites| suites.contains(name))
    }
}

/// The workspace's packages by their folders below the root, each with the folders of its dependencies.
struct Packages(BTreeMap<PathBuf, BTreeSet<PathBuf>>);

impl Packages {
    /// Reads the output of `cargo metadata`.
    fn of(metadata: &Value) -> Self {
        let root = Path::new(metadata["workspace_root"].as_str().unwrap_or_default());
        let below = |path: &str| Path::new(path).strip_prefix(root).unwrap_or(Path::new(path)).to_owned();
        let packages = metadata["packages"].as_array().into_iter().flatten().filter_map(|package| {
            let folder = below(package["manifest_path"].as_str()?).parent()?.to_owned();
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            let paths =
                dependencies.filter_map(|dependency| dependency["path"].as_str().map(below)).collect();
            Some((folder, paths))
        });
        Self(packages.collect())
    }

    /// Returns the package to which a file belongs.
    fn folder_of(&self, file: &Path) -> Option<&Path> {
        file.ancestors()
            .skip(1)
            .find_map(|folder| self.0.get_key_value(folder))
            .map(|(folder, _)| folder.as_path())
    }

    fn add_with_dependents(&self, folder: &Path, known: &mut BTreeSet<PathBuf>) {
        if known.insert(folder.to_owned()) {
            for (dependent, _) in self.0.iter().filter(|(_, dependencies)| dependencies.contains(folder)) {
                self.add_with_dependents(dependent, known);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn packages() -> Packages {
        let package = |folder: &str, dependencies: &[&str]| {
            let paths: Vec<Value> =
                dependencies.iter().map(|folder| json!({"path": format!("/p/{folder}")})).collect();
            json!({"manifest_path": format!("/p/{folder}/Cargo.toml"), "dependencies": paths})
        };
        Packages::of(&json!({
            "workspace_root": "/p",
            "packages": [
                package("api", &[]),
                package("protocol", &["api"]),
                package("kubectl", &["protocol"]),
                package("machinery/merge", &[]),
                package("tests/e2e", &["protocol", "machinery/merge"]),
            ],
        }))
    }

    fn of(files: &[&str]) -> (Vec<String>, Option<Vec<String>>) {
        let Change { folders, end_to_end } = Change::of(files, &packages());
        let folders = folders.into_iter().map(|folder| folder.display().to_string()).collect();
        (folders, end_to_end.map(|suites| suites.into_iter().collect()))
    }

    #[test]
    fn a_change_touches_its_package_and_those_above_and_the_suites_of_its_rows() {
        let some = |suites: &[&str]| Some(suites.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&[]), (vec![], some(&[])));
        assert_eq!(
            of(&["kubectl/src/main.rs"]),
            (vec!["kubectl".to_owned()], some(&["kubectl", "silence", "stories", "ways_out"]))
        );
        let (folders, suites) = of(&["protocol/src/drain/plan/mod.rs", "CHANGELOG.md"]);
        assert_eq!(folders, ["kubectl", "protocol", "tests/e2e"]);
        assert_eq!(suites, some(&["bridges", "drain", "kubectl", "outages", "stories", "ways_out"]));
        assert_eq!(of(&["tests/e2e/tests/refresh/limits.rs"]).1, some(&["refresh"]));
        assert_eq!(of(&["README.md", "docs/guide/stuck.md"]).0, Vec::<String>::new());
    }

    #[test]
    fn a_change_of_all_or_of_an_unknown_file_touches_everything() {
        assert_eq!(of(&["api/src/lib.rs", "kubectl/src/main.rs"]).1, None);
        for file in ["unknown/file", "Cargo.lock", "deploy/base/x.yaml", "machinery/README.md"] {
            let (folders, suites) = of(&[file]);
            assert_eq!((folders.len(), suites), (5, None), "{file}");
        }
    }
}
