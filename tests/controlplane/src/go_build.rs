//! Builds the programs from their Go modules, once for each version of the sources.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::pki::write;
use crate::{Error, Program, Result};

/// The sources are part of this crate, so that a program built from it can build them wherever it is.
const SOURCES: [(&str, &str); 5] = [
    ("go.mod", include_str!("../binaries/go.mod")),
    ("go.sum", include_str!("../binaries/go.sum")),
    ("main.go", include_str!("../binaries/main.go")),
    ("checkevictions.go", include_str!("../binaries/checkevictions.go")),
    ("applies.go", include_str!("../binaries/applies.go")),
];
/// Version that the programs report. kubectl fails when it is not set.
const LINKER_FLAGS: &str = "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.1 \
     -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37";
/// The one file with all Kubernetes programs and etcd: it looks at the name that it is called by.
const KUBERNETES: &str = "kubernetes";
const KWOK: &str = "sigs.k8s.io/kwok/cmd/kwok@v0.8.0";
/// Interval between two looks at a build.
const POLL: Duration = Duration::from_millis(100);

/// A folder of programs built from one version of the sources.
pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The one for the sources of this crate, in the user's cache folder.
    pub(crate) fn new(parent: &Path) -> Self {
        let mut hash = Sha256::new();
        for (name, content) in SOURCES {
            hash.update(name);
            hash.update(content);
        }
        hash.update(KWOK);
        hash.update(LINKER_FLAGS);
        let start =
            hash.finalize().iter().take(8).fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
        Self { folder: parent.join("controlplane").join(format!("{start:016x}")) }
    }

    fn bin(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// Path of a program after the build.
    pub(crate) fn path(&self, program: Program) -> PathBuf {
        self.bin().join(program.name())
    }

    /// Builds what is not there. A file appears under its name only when it is complete.
    pub(crate) fn provide(&self, programs: &[Program]) -> Result<()> {
        let bin = self.bin();
        fs::create_dir_all(&bin).map_err(Error::file("create", &bin))?;
        let lock = self.folder.join("lock");
        // Held while building: a second builder waits, and then finds the work done.
        let held = File::create(&lock).map_err(Error::file("write", &lock))?;
        held.lock().map_err(Error::file("lock", &lock))?;

        let missing: Vec<Program> =
            programs.iter().copied().filter(|&program| !self.path(program).is_file()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        require_go(&missing)?;
        let work = self.folder.join("building");
        remove(&work)?;
        fs::create_dir_all(&work).map_err(Error::file("create", &work))?;
        if missing.contains(&Program::Kwok) {
            build_kwok(&work)?;
            rename(&work.join("kwok"), &self.path(Program::Kwok))?;
        }
        if missing.iter().any(|&program| program != Program::Kwok) {
            build_kubernetes(&work)?;
            rename(&work.join(KUBERNETES), &bin.join(KUBERNETES))?;
            for program in Program::ALL.into_iter().filter(|&program| program != Program::Kwok) {
                link(Path::new(KUBERNETES), &self.path(program))?;
            }
        }
        remove(&work)
    }
}

fn require_go(missing: &[Program]) -> Result<()> {
    match Command::new("go").arg("version").stdin(Stdio::null()).stdout(Stdio::null()).status() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let names: Vec<&str> = missing.iter().map(|program| program.name()).collect();
            Err(Error::GoMissing { programs: names.join(", ") })
        }
        Err(source) => Err(Error::Process { action: "start", name: "go".to_owned(), source }),
    }
}

fn build_kubernetes(work: &Path) -> Result<()> {
    for (name, content) in SOURCES {
        write(&work.join(name), content)?;
    }
    eprintln!("building Kubernetes and etcd from their Go modules: once, 5 to 10 minutes");
    let mut command = go(work);
    command.args(["build", "-o", KUBERNETES, "-ldflags", LINKER_FLAGS, "."]);
    run(command, work)
}

fn build_kwok(work: &Path) -> Result<()> {
    eprintln!("building kwok from its Go module: once, a few minutes");
    let mut command = go(work);
    command.env("GOBIN", work).args(["install", KWOK]);
    run(command, work)
}

pub(crate) fn go(work: &Path) -> Command {
    let mut command = Command::new("go");
    // Without C code one file runs on every Linux. A workspace of the caller is none of this build's
    // business.
    command.current_dir(work).env("CGO_ENABLED", "0").env("GOWORK", "off").stdin(Stdio::null());
    command
}

/// Runs Go to its end, and says each minute that it still works. Its compilers die with this process.
pub(crate) fn run(mut command: Command, folder: &Path) -> Result<()> {
    let cannot = |source| Error::Process { action: "run", name: "go".to_owned(), source };
    let mut child = command.process_group(0).spawn().map_err(cannot)?;
    let group = child.id();
    reaper::watch_group(group).map_err(cannot)?;
    let began = Instant::now();
    let mut told = 0;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(cannot)? {
            break status;
        }
        let minutes = began.elapsed().as_secs() / 60;
        if minutes > told {
            told = minutes;
            eprintln!("Go has built for {minutes} min");
        }
        thread::sleep(POLL);
    };
    reaper::forget_group(group);
    if status.success() {
        return Ok(());
    }
    let words = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>();
    Err(Error::GoBuild { command: format!("go {}", words.join(" ")), folder: folder.to_owned(), status })
}

pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(Error::file("write", to))
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", folder)(error)),
        _ => Ok(()),
    }
}

/// Makes a symbolic link, in place of one that is there.
pub(crate) fn link(target: &Path, link: &Path) -> Result<()> {
    match fs::remove_file(link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::file("replace", link)(error));
        }
        _ => {}
    }
    std::os::unix::fs::symlink(target, link).map_err(Error::file("link", link))
}
