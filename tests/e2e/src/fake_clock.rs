//! A wrong wall clock for a process of the system, by Debian's faketime.

use std::{ffi::OsString, fs, path::PathBuf};

use anyhow::{Context, bail};
use chrono::TimeDelta;
use controlplane::output_of;
use tempfile::TempDir;

/// Maximum number of attempts to start faketime.
const ATTEMPTS: usize = 5;

/// A wall clock for one process, which a test sets while the process runs. The monotonic clock stays right,
/// as when a real clock is set.
#[derive(Debug)]
pub struct FakeClock {
    library: String,
    folder: TempDir,
}

impl FakeClock {
    /// A clock that is right at first.
    ///
    /// # Errors
    ///
    /// Fails when `faketime` is not installed.
    pub async fn new() -> anyhow::Result<Self> {
        let library = Self::library().await?;
        let folder = tempfile::tempdir().context("no temporary folder")?;
        let clock = Self { library, folder };
        clock.set(TimeDelta::zero())?;
        Ok(clock)
    }

    /// Path of the library that fakes the time.
    async fn library() -> anyhow::Result<String> {
        let mut attempts = 0;
        loop {
            let mut command = std::process::Command::new("faketime");
            command.args(["-m", "-f", "+0", "printenv", "LD_PRELOAD"]);
            let found = output_of("faketime", command).await;
            let found = found.context("faketime is needed: apt-get install faketime")?;
            if found.success() {
                return Ok(found.stdout.trim().to_owned());
            }
            attempts += 1;
            // A process that was killed left a semaphore under its id, which the next one of that id meets.
            if attempts == ATTEMPTS || !found.stderr.contains("File exists") {
                bail!("faketime does not work: {}", found.stderr);
            }
        }
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
