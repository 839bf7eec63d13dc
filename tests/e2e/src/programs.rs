//! Paths of the project's own programs.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// The folder with the binaries, and with the examples in `examples/`.
#[derive(Clone, Debug)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// The folder that `EVACUATION_BIN` names, else the one that this process was built into.
    ///
    /// # Errors
    ///
    /// Fails when the programs are not there: `cargo xtask` builds them, or
    /// `cargo build --workspace --bins --examples`.
    pub fn find() -> anyhow::Result<Self> {
        let folder = if let Some(folder) = std::env::var_os("EVACUATION_BIN") {
            PathBuf::from(folder)
        } else {
            let own = std::env::current_exe().context("this process has no file")?;
            let parent = own.parent().context("this process' file has no folder")?;
            // Tests are one folder deeper.
            if parent.ends_with("deps") {
                parent.parent().unwrap_or(parent).to_owned()
            } else {
                parent.to_owned()
            }
        };
        let programs = Self { folder };
        for program in [programs.binary("evacuation-apiserver"), programs.example("accept")] {
            if !program.exists() {
                bail!("{} is missing: cargo build --workspace --bins --examples", program.display());
            }
        }
        Ok(programs)
    }

    /// The folder of the binaries, which holds kubectl's plugins too.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// One of our binaries.
    pub fn binary(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// An example of the client crate.
    pub fn example(&self, name: &str) -> PathBuf {
        self.folder.join("examples").join(name)
    }
}

/// The project's root, where the manifests and the guide are. It is that of the running process, also after
/// the project was moved.
pub fn root() -> PathBuf {
    root_of(std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from))
}

/// Returns the root for the folder of a package from which cargo, or `cargo xtask`, runs this.
fn root_of(running: Option<PathBuf>) -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).to_owned();
    let package = running.filter(|folder| folder.ends_with("tests/e2e") || folder.ends_with("xtask"));
    let package = package.unwrap_or_else(built);
    package.join(if package.ends_with("xtask") { ".." } else { "../.." })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_a_moved_project_is_where_it_runs() {
        for (running, expected) in [
            (Some("/moved/tests/e2e"), "/moved/tests/e2e/../.."),
            (Some("/moved/xtask"), "/moved/xtask/.."),
            (Some("/other/package"), concat!(env!("CARGO_MANIFEST_DIR"), "/../..")),
            (None, concat!(env!("CARGO_MANIFEST_DIR"), "/../..")),
        ] {
            assert_eq!(root_of(running.map(PathBuf::from)), Path::new(expected));
        }
    }
}
