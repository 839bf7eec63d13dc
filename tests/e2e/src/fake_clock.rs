//! A wrong wall clock for a process of the system, by Debian's faketime.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use chrono::TimeDelta;
use controlplane::{Folder, output_of};

/// Folder of the shared memory of processes.
const SHARED_MEMORY: &str = "/dev/shm";

/// A wall clock for one process, which a test sets while the process runs. The monotonic clock stays right,
/// as when a real clock is set.
#[derive(Debug)]
pub struct FakeClock {
    library: String,
    folder: Folder,
}

impl FakeClock {
    /// A clock that is right at first.
    ///
    /// # Errors
    ///
    /// Fails when `faketime` is not installed.
    pub async fn new() -> anyhow::Result<Self> {
        let library = Self::library().await?;
        let folder = Folder::new("clock")?;
        let clock = Self { library, folder };
        clock.set(TimeDelta::zero())?;
        Ok(clock)
    }

    /// Path of the library that fakes the time.
    async fn library() -> anyhow::Result<String> {
        sweep();
        let mut command = std::process::Command::new("faketime");
        command.args(["-m", "-f", "+0", "printenv", "LD_PRELOAD"]);
        let found = output_of("faketime", command).await;
        let found = found.context("faketime is needed: apt-get install faketime")?;
        if !found.success() {
            bail!("faketime does not work: {}", found.stderr);
        }
        Ok(found.stdout.trim().to_owned())
    }

    /// Sets the clock ahead of the real one by this much; behind it when negative.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn set(&self, ahead: TimeDelta) -> anyhow::Result<()> {
        // Renamed, for the process reads it whenever it looks at its clock.
        let new = self.folder.path().join("new");
        fs::write(&new, format!("{:+}\n", ahead.num_seconds()))?;
        fs::rename(new, self.file())?;
        Ok(())
    }

    /// The environment variables of a process that has this clock.
    pub fn environment(&self) -> Vec<(String, OsString)> {
        [
            ("LD_PRELOAD", self.library.clone().into()),
            ("FAKETIME_TIMESTAMP_FILE", self.file().into_os_string()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            ("DONT_FAKE_MONOTONIC", "1".into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("clock")
    }
}

/// Removes the shared memory of processes that were killed, which faketime names by their ids. The next
/// process of such an id would not start.
fn sweep() {
    for file in fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten() {
        let name = file.file_name();
        let id = name.to_str().and_then(|name| {
            let name = name.strip_prefix("sem.").unwrap_or(name).strip_prefix("faketime_")?;
            name.strip_prefix("sem_").or_else(|| name.strip_prefix("shm_"))
        });
        if id.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            // Another suite sweeps at the same time.
            let _ = fs::remove_file(file.path());
        }
    }
}
