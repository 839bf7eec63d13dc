//! Packages of other languages, installed once in the user's cache.

use std::{
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, bail};

/// Packages that a package manager installs into a folder of their own.
#[derive(Clone, Copy, Debug)]
pub struct Packages {
    /// First part of the folder's name.
    pub name: &'static str,
    /// Names and contents of the files that are in the folder before the installation.
    pub files: &'static [(&'static str, &'static str)],
    /// Shell command that prints the version of the language. Another version needs another installation.
    pub version: &'static str,
    /// Shell commands that install the packages into the current folder.
    pub install: &'static str,
}

impl Packages {
    /// Returns the folder, after the installation. A second caller waits for the first.
    ///
    /// # Errors
    ///
    /// Fails when a command fails, or the folder cannot be written.
    pub async fn folder(self) -> anyhow::Result<PathBuf> {
        tokio::task::spawn_blocking(move || self.folder_in(&cache()?)).await?
    }

    fn folder_in(self, cache: &Path) -> anyhow::Result<PathBuf> {
        fs::create_dir_all(cache).with_context(|| format!("{} cannot be made", cache.display()))?;
        let version = shell(self.version, cache)?;
        let mut hasher = DefaultHasher::new();
        (self.files, self.install, version).hash(&mut hasher);
        let folder = cache.join(format!("{}-{:016x}", self.name, hasher.finish()));
        let cannot = || format!("{} cannot be written", folder.display());
        fs::create_dir_all(&folder).with_context(cannot)?;
        let lock = File::create(folder.join("lock")).with_context(cannot)?;
        lock.lock().with_context(cannot)?;
        let complete = folder.join("complete");
        if !complete.exists() {
            for (name, content) in self.files {
                fs::write(folder.join(name), content).with_context(cannot)?;
            }
            eprintln!("installing the packages of {}: once", self.name);
            shell(self.install, &folder)?;
            fs::write(complete, "").with_context(cannot)?;
        }
        Ok(folder)
    }
}

/// Returns the folder of this project in the user's cache.
fn cache() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(std::env::home_dir()?.join(".cache"))).context("no home folder")?;
    Ok(cache.join("evacuation"))
}

/// Runs shell commands in a folder until one fails, and returns what they printed.
fn shell(commands: &str, folder: &Path) -> anyhow::Result<String> {
    let mut shell = Command::new("sh");
    shell.args(["-ec", commands]).current_dir(folder).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = shell.output().context("no shell could be started")?;
    if !output.status.success() {
        bail!("{commands}: {}, in {}", output.status, folder.display());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONCE: Packages = Packages {
        name: "once",
        files: &[("wanted", "one")],
        version: "echo 1",
        install: "cat wanted >> installed",
    };

    #[test]
    fn packages_are_installed_once_and_again_when_what_is_wanted_changes() {
        let cache = tempfile::tempdir().unwrap();
        let first = ONCE.folder_in(cache.path()).unwrap();
        assert_eq!(ONCE.folder_in(cache.path()).unwrap(), first);
        assert_eq!(fs::read_to_string(first.join("installed")).unwrap(), "one");
        for other in [
            Packages { files: &[("wanted", "two")], ..ONCE },
            Packages { version: "echo 2", ..ONCE },
            Packages { install: "cat wanted > installed", ..ONCE },
        ] {
            let folder = other.folder_in(cache.path()).unwrap();
            assert_ne!(folder, first);
            assert_eq!(fs::read_to_string(folder.join("installed")).unwrap(), other.files[0].1);
        }
    }

    #[test]
    fn an_installation_that_failed_is_tried_again() {
        let cache = tempfile::tempdir().unwrap();
        // Fails unless it ran before.
        let late = Packages { install: "test -e tried || { touch tried; false; }", ..ONCE };
        let error = late.folder_in(cache.path()).unwrap_err();
        assert!(error.to_string().contains("exit status: 1"), "{error}");
        late.folder_in(cache.path()).unwrap();
    }
}
