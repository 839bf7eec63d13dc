//! Folders for the temporary files of test programs, and what the programs leave behind.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::bounded::{Ended, run_within};

/// Time for the end of what dies with a program: its servers, and the shell that kills them.
const GRACE: Duration = Duration::from_secs(30);
/// Pause between two looks.
const POLL: Duration = Duration::from_millis(20);
/// Maximum length of a command line that is shown.
const SHOWN: usize = 200;

/// Result of a run with a folder of its own.
pub(crate) struct Run {
    pub(crate) ended: Ended,
    /// Processes that the program left running, and files of a program without a failure. A failed test
    /// keeps its files to be read.
    pub(crate) left: Vec<String>,
}

/// Runs a program whose `TMPDIR` is a new folder. The folder is removed if it is empty at the end, or if this
/// process is killed.
///
/// # Errors
///
/// As for [`run_within`], and when the folder cannot be made.
pub(crate) fn run_in_scratch(name: &str, command: &mut Command, limit: Duration) -> anyhow::Result<Run> {
    let scratch = Scratch::new(name)?;
    let ended = run_within(command.env("TMPDIR", &scratch.path), limit)?;
    let keeps = !ended.end.is_success() || std::env::var_os("CONTROLPLANE_KEEP").is_some();
    let left = scratch.left(keeps, GRACE);
    Ok(Run { ended, left })
}

struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(name: &str) -> io::Result<Self> {
        let path = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir()?.keep();
        let scratch = Self { path };
        reaper::watch_folder(&scratch.path)?;
        Ok(scratch)
    }

    /// Waits until nothing is left, and returns what still is after that time.
    fn left(&self, keeps_files: bool, limit: Duration) -> Vec<String> {
        let began = Instant::now();
        loop {
            let mut left = processes(&self.path);
            if !keeps_files {
                left.extend(files(&self.path));
            }
            if left.is_empty() || began.elapsed() >= limit {
                return left;
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Only an empty folder can be removed in this way.
        let _ = fs::remove_dir(&self.path);
        reaper::forget_folder(&self.path);
    }
}

/// Returns the processes that got the folder by their environment or an argument. Those of other users
/// cannot be read.
fn processes(folder: &Path) -> Vec<String> {
    let name = folder.as_os_str().as_encoded_bytes();
    let has = |text: &[u8]| text.windows(name.len()).any(|part| part == name);
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let of_folder = all.filter_map(|process| {
        let read = |file: &str| fs::read(process.path().join(file)).unwrap_or_default();
        let command = read("cmdline");
        // A process that has ended has neither.
        (has(&command) || has(&read("environ"))).then(|| {
            let words = String::from_utf8_lossy(&command).replace('\0', " ");
            let shown: String = words.chars().take(SHOWN).collect();
            format!("still runs: process {}: {}", process.file_name().display(), shown.trim_end())
        })
    });
    of_folder.collect()
}

/// Returns what is in the folder.
fn files(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    all.map(|file| format!("not removed: {}", file.path().display())).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Stdio};

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    /// Waits until a value is there.
    fn wait_for<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(began.elapsed() < MINUTE, "{what} did not come");
            thread::sleep(POLL);
        }
    }

    fn ignored_test(name: &str, report: &Path) -> Command {
        let mut program = Command::new(std::env::current_exe().unwrap_or_default());
        program.args([&format!("scratch::tests::{name}"), "--exact", "--ignored"]);
        program.env("SCRATCH_REPORT", report).stdout(Stdio::null());
        program
    }

    /// Not a test of its own: the test program of the run that is killed. It has a server and a file.
    #[test]
    #[ignore = "run by another test"]
    fn suite() -> anyhow::Result<()> {
        let Some(report) = std::env::var_os("SCRATCH_REPORT").map(PathBuf::from) else {
            return Ok(());
        };
        let folder = std::env::temp_dir();
        let server: Child = Command::new("sleep").arg("1000").spawn()?;
        reaper::watch_process(server.id())?;
        fs::write(folder.join("file"), "not removed by the suite")?;
        let unfinished = report.with_extension("unfinished");
        fs::write(&unfinished, format!("{} {}", server.id(), folder.display()))?;
        fs::rename(unfinished, report)?;
        thread::sleep(Duration::from_secs(1000));
        Ok(())
    }

    /// Not a test of its own: the run that is killed.
    #[test]
    #[ignore = "run by another test"]
    fn run() -> anyhow::Result<()> {
        let Some(report) = std::env::var_os("SCRATCH_REPORT").map(PathBuf::from) else {
            return Ok(());
        };
        run_in_scratch("killed", &mut ignored_test("suite", &report), Duration::from_secs(1000))?;
        Ok(())
    }

    #[test]
    fn a_run_that_is_killed_leaves_nothing_and_another_one_passes() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let report = folder.path().join("report");
        let mut killed = ignored_test("run", &report).spawn()?;
        let text = wait_for("the report", || fs::read_to_string(&report).ok());
        let (server, scratch) = text.split_once(' ').unwrap_or_default();
        let scratch = Path::new(scratch);
        assert!(scratch.join("file").exists() && processes(scratch).len() >= 2, "{text}");

        killed.kill()?;
        killed.wait()?;
        let server = Path::new("/proc").join(server).join("stat");
        let is_over = |stat: String| stat.contains(") Z ");
        wait_for("the end of the server", || {
            fs::read_to_string(&server).map_or(Some(()), |stat| is_over(stat).then_some(()))
        });
        wait_for("the end of the suite", || processes(scratch).is_empty().then_some(()));
        wait_for("the end of the folder", || (!scratch.exists()).then_some(()));

        let another = run_in_scratch("another", &mut Command::new("true"), MINUTE)?;
        assert!(another.ended.end.is_success() && another.left.is_empty(), "{:?}", another.left);
        Ok(())
    }

    #[test]
    fn a_file_and_a_process_that_a_program_left_are_named() -> anyhow::Result<()> {
        let scratch = Scratch::new("left")?;
        let mut program = Command::new("sh");
        program.args(["-c", "touch $TMPDIR/a; sleep 1000 > /dev/null 2>&1 & echo $!"]);
        let ended = run_within(program.env("TMPDIR", &scratch.path), MINUTE)?;
        let pid = ended.text.trim();
        let file = format!("not removed: {}", scratch.path.join("a").display());
        let process = format!("still runs: process {pid}: sleep 1000");
        assert_eq!(scratch.left(false, Duration::ZERO), [process.clone(), file]);
        assert_eq!(scratch.left(true, Duration::ZERO), [process], "a failed test keeps its files");

        Command::new("kill").arg(pid).status()?;
        fs::remove_file(scratch.path.join("a"))?;
        assert_eq!(scratch.left(false, MINUTE), Vec::<String>::new());
        let path = scratch.path.clone();
        drop(scratch);
        assert!(!path.exists());
        Ok(())
    }
}
