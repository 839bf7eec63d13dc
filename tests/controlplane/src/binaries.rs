use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::go_build::{self, Cache};
use crate::{Error, Result};

/// A program that a control plane consists of, or that checks others against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Program {
    /// The store.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The controllers of the built-in kinds.
    KubeControllerManager,
    /// The scheduler.
    KubeScheduler,
    /// The command-line client.
    Kubectl,
    /// The stand-in for kubelets.
    Kwok,
    /// Kubernetes' own validation of the status of an Eviction (`lifecycle.k8s.io`), at times that the
    /// caller names: JSON lines `{"now", "old", "new"}` in, a line for each out, empty or with its errors.
    CheckEvictions,
    /// Kubernetes' own field managers: JSON lines with a schema and writes in, a line with the object, its
    /// managed fields or the conflicts out for each write. `applies.go` has the fields.
    Apply,
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::KubeScheduler,
        Self::Kubectl,
        Self::Kwok,
        Self::CheckEvictions,
        Self::Apply,
    ];

    /// The name of its file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kwok => "kwok",
            Self::CheckEvictions => "check-evictions",
            Self::Apply => "apply",
        }
    }

    /// Arguments that make it print its version.
    fn version_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Kubectl => &["version", "--client"],
            _ => &["--version"],
        }
    }

    /// Returns whether a program of this version, found on the machine, serves instead of a new build.
    fn accepts(self, version: (u32, u32)) -> bool {
        match self {
            Self::KubeApiserver | Self::KubeControllerManager | Self::KubeScheduler => version == (1, 37),
            // kubectl works with a server one minor version newer.
            Self::Kubectl => version.0 == 1 && version.1 >= 36,
            // Kubernetes 1.37 is tested with 3.7, and works with 3.6.
            Self::Etcd => version.0 == 3 && version.1 >= 6,
            // The stages of this crate are written for this version.
            Self::Kwok => version == (0, 8),
            // No machine has them but from this crate.
            Self::CheckEvictions | Self::Apply => false,
        }
    }
}

/// Paths of the programs.
#[derive(Debug, Clone)]
pub struct Binaries {
    paths: Vec<(Program, PathBuf)>,
}

impl Binaries {
    /// Finds every program, and builds those that are not found.
    ///
    /// Looked at in this order: the folder that the environment variable `CONTROLPLANE_BIN` names, which must
    /// have them all; the one that `KUBEBUILDER_ASSETS` names; the cache of earlier builds; `PATH`. A program
    /// found on the machine counts only in a fitting version: Kubernetes 1.37, kubectl 1.36 or later, etcd
    /// 3.6 or later, kwok 0.8. Building takes several minutes and needs Go; it happens once for each version
    /// of the sources, in `$XDG_CACHE_HOME/controlplane` or `~/.cache/controlplane`, and says so on standard
    /// error. It blocks; two processes that build at once take turns.
    ///
    /// # Errors
    ///
    /// [`Error::MissingBinary`], [`Error::GoMissing`], [`Error::GoBuild`], or a folder that cannot be
    /// written.
    pub fn find_or_build() -> Result<Self> {
        Self::find_or_build_some(&Program::ALL)
    }

    fn find_or_build_some(programs: &[Program]) -> Result<Self> {
        Search::from_environment()?.run(programs)
    }

    /// The same off the threads of the async runtime, for some of the programs.
    pub(crate) async fn find_or_build_in_background(programs: &'static [Program]) -> Result<Self> {
        tokio::task::spawn_blocking(|| Self::find_or_build_some(programs)).await?
    }

    /// The file of a program. Of one that was not asked for, its bare name.
    pub fn path(&self, program: Program) -> &Path {
        let found = self.paths.iter().find(|(candidate, _)| *candidate == program);
        found.map_or_else(|| Path::new(program.name()), |(_, path)| path)
    }

    /// A folder that has them all, which can be `CONTROLPLANE_BIN` or part of `PATH`: their own when they
    /// share one, else one with links to them in the user's cache folder.
    ///
    /// # Errors
    ///
    /// Fails when there is no cache folder or it cannot be written.
    pub fn folder(&self) -> Result<PathBuf> {
        let mut parents = self.paths.iter().map(|(_, path)| path.parent().unwrap_or(Path::new("/")));
        if let Some(first) = parents.next()
            && parents.all(|parent| parent == first)
        {
            return Ok(first.to_owned());
        }
        let folder = cache_parent().ok_or(Error::NoCacheFolder)?.join("controlplane").join("links");
        std::fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        for (program, path) in &self.paths {
            go_build::link(path, &folder.join(program.name()))?;
        }
        Ok(folder)
    }
}

fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

pub(crate) fn cache_parent() -> Option<PathBuf> {
    let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
    cache.or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache")))
}

/// The places to look at, read once.
struct Search {
    exclusive: Option<PathBuf>,
    assets: Option<PathBuf>,
    cache: Option<Cache>,
    path: Vec<PathBuf>,
}

impl Search {
    fn from_environment() -> Result<Self> {
        let exclusive = match set("CONTROLPLANE_BIN").map(PathBuf::from) {
            Some(folder) => Some(folder.canonicalize().map_err(Error::file("find", &folder))?),
            None => None,
        };
        Ok(Self {
            exclusive,
            assets: set("KUBEBUILDER_ASSETS").map(PathBuf::from),
            cache: cache_parent().map(|parent| Cache::new(&parent)),
            path: set("PATH").iter().flat_map(env::split_paths).collect(),
        })
    }

    fn run(&self, programs: &[Program]) -> Result<Binaries> {
        let mut paths = Vec::new();
        let mut missing = Vec::new();
        for &program in programs {
            if let Some(folder) = &self.exclusive {
                let path = folder.join(program.name());
                if !path.is_file() {
                    return Err(Error::MissingBinary { program: program.name(), folder: folder.clone() });
                }
                paths.push((program, path));
            } else if let Some(path) = self.find(program) {
                paths.push((program, path));
            } else {
                missing.push(program);
            }
        }
        if !missing.is_empty() {
            let cache = self.cache.as_ref().ok_or(Error::NoCacheFolder)?;
            cache.provide(&missing)?;
            paths.extend(missing.iter().map(|&program| (program, cache.path(program))));
        }
        Ok(Binaries { paths })
    }

    fn find(&self, program: Program) -> Option<PathBuf> {
        let fits = |path: &PathBuf| {
            path.is_file() && version_of(program, path).is_some_and(|version| program.accepts(version))
        };
        let in_assets = self.assets.iter().map(|folder| folder.join(program.name())).find(fits);
        // What was built here needs no question for its version.
        let built = || self.cache.iter().map(|cache| cache.path(program)).find(|path| path.is_file());
        let in_path = || self.path.iter().map(|folder| folder.join(program.name())).find(fits);
        in_assets.or_else(built).or_else(in_path)
    }
}

fn version_of(program: Program, path: &Path) -> Option<(u32, u32)> {
    let output = Command::new(path).args(program.version_arguments()).stdin(Stdio::null()).output().ok()?;
    first_version(&String::from_utf8_lossy(&output.stdout))
}

/// The first `MAJOR.MINOR` in a text.
fn first_version(text: &str) -> Option<(u32, u32)> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.').find_map(|word| {
        let mut numbers = word.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::Folder;

    #[test]
    fn versions_are_read_from_what_the_programs_print() {
        for (printed, version) in [
            ("Kubernetes v1.37.1\n", Some((1, 37))),
            ("etcd Version: 3.7.0\nGit SHA: Not provided\n", Some((3, 7))),
            ("Client Version: v1.36.0-rc.1\nKustomize Version: v5.8.1\n", Some((1, 36))),
            ("kwok version v0.8.0 go1.26.8 (linux/amd64)\n", Some((0, 8))),
            ("v0.0.0-master+$Format:%H$", Some((0, 0))),
            ("no number", None),
            ("", None),
        ] {
            assert_eq!(first_version(printed), version, "{printed}");
        }
    }

    fn program(folder: &Path, program: Program, prints: &str) {
        let path = folder.join(program.name());
        std::fs::write(&path, format!("#!/bin/sh\necho '{prints}'\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_program_found_by_chance_counts_only_in_a_fitting_version() {
        let folder = Folder::new("binaries").unwrap();
        let (old, new) = (folder.subfolder("old").unwrap(), folder.subfolder("new").unwrap());
        program(&old, Program::KubeApiserver, "Kubernetes v1.36.3");
        program(&new, Program::KubeApiserver, "Kubernetes v1.37.4");
        program(&old, Program::Kubectl, "Client Version: v1.32.0");
        let search =
            Search { exclusive: None, assets: Some(old.clone()), cache: None, path: vec![old, new.clone()] };
        assert_eq!(search.find(Program::KubeApiserver), Some(new.join("kube-apiserver")));
        assert_eq!(search.find(Program::Kubectl), None);
    }

    #[test]
    fn the_folder_that_the_user_names_is_taken_as_it_is_but_must_be_complete() {
        let folder = Folder::new("binaries").unwrap();
        program(folder.path(), Program::Etcd, "etcd Version: 3.5.0");
        let search =
            Search { exclusive: Some(folder.path().to_owned()), assets: None, cache: None, path: Vec::new() };
        let found = search.run(&[Program::Etcd]).unwrap();
        assert_eq!(found.path(Program::Etcd), folder.path().join("etcd"));
        let error = search.run(&Program::ALL).unwrap_err();
        assert!(matches!(error, Error::MissingBinary { program: "kube-apiserver", .. }), "{error}");
    }
}
