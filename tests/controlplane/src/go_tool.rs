//! Programs of others, built from their Go modules for tests that need the real ones.

use std::{
    fs::{self, File},
    path::PathBuf,
};

use sha2::{Digest, Sha256};

use crate::{
    Error, Result,
    binaries::cache_parent,
    go_build::{go, rename, run},
    pki::write,
};

/// A program of a Go module that this project pins.
#[derive(Debug, Clone, Copy)]
pub struct GoTool {
    /// Name of its file.
    pub name: &'static str,
    /// Package of its main function.
    pub package: &'static str,
    /// Module from which files are read, if tests need some.
    pub module: Option<&'static str>,
    /// Version of Go, such as `go1.26.9`, for a module that needs a later one than the machine has.
    pub toolchain: Option<&'static str>,
    /// Flags of Go's linker, such as the version of a program that reads it from its binary.
    pub linker_flags: Option<&'static str>,
    /// Names and contents of the files of the module: `go.mod`, `go.sum`, and sources.
    pub files: &'static [(&'static str, &'static str)],
}

/// A program that was built.
#[derive(Debug, Clone)]
pub struct BuiltTool {
    /// Path of the program.
    pub program: PathBuf,
    /// Folder of the module's source.
    pub source: Option<PathBuf>,
}

impl GoTool {
    /// Builds it, once for each version of its files, in the user's cache folder. It blocks for minutes.
    ///
    /// # Errors
    ///
    /// [`Error::GoBuild`], or a folder that cannot be written.
    pub fn build(&self) -> Result<BuiltTool> {
        let mut hash = Sha256::new();
        for (name, content) in self.files {
            hash.update(name);
            hash.update(content);
        }
        hash.update(self.package);
        hash.update(self.linker_flags.unwrap_or_default());
        let start =
            hash.finalize().iter().take(8).fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
        let parent = cache_parent().ok_or(Error::NoCacheFolder)?;
        let folder = parent.join("controlplane-tools").join(format!("{}-{start:016x}", self.name));
        fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        let lock = folder.join("lock");
        // Held while building: a second builder waits, and then finds the work done.
        let held = File::create(&lock).map_err(Error::file("write", &lock))?;
        held.lock().map_err(Error::file("lock", &lock))?;
        for (name, content) in self.files {
            write(&folder.join(name), content)?;
        }
        let program = folder.join(self.name);
        if !program.is_file() {
            eprintln!("building {} from its Go module: once, some minutes", self.name);
            let partial = folder.join("partial");
            let mut command = self.go(&folder);
            command.args(["build", "-buildvcs=false"]);
            command.args(self.linker_flags.map(|flags| format!("-ldflags={flags}")));
            command.arg("-o").arg(&partial).arg(self.package);
            run(command, &folder)?;
            rename(&partial, &program)?;
        }
        let source = match self.module {
            Some(module) => Some(self.source_of(module, &folder)?),
            None => None,
        };
        Ok(BuiltTool { program, source })
    }

    fn go(&self, folder: &std::path::Path) -> std::process::Command {
        let mut command = go(folder);
        command.envs(self.toolchain.map(|version| ("GOTOOLCHAIN", version)));
        command
    }

    fn source_of(&self, module: &str, folder: &std::path::Path) -> Result<PathBuf> {
        let mut command = self.go(folder);
        command.args(["list", "-m", "-f", "{{.Dir}}", module]);
        let output = command.output().map_err(|source| Error::Process {
            action: "run",
            name: "go".to_owned(),
            source,
        })?;
        if !output.status.success() {
            let command = format!("go list -m {module}");
            return Err(Error::GoBuild { command, folder: folder.to_owned(), status: output.status });
        }
        Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
    }
}
