use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{Error, Result, Signal};

/// Interval between looks at a process that should end.
const INTERVAL: Duration = Duration::from_millis(10);
/// Number of looks at a process that should be paused.
const LOOKS: usize = 500;
/// Time that [`Process::terminate`] gives a process to end by itself.
const GRACE: Duration = Duration::from_secs(30);

/// A program that runs beside the test, its output in a log file.
///
/// It is killed when this value is dropped, and when the process that started it dies of whatever cause;
/// what it starts itself is its own business. Its methods take `&self` and need no runtime of their own, so
/// that it may be shared by tests that each have one.
pub struct Process {
    name: String,
    log: PathBuf,
    state: Mutex<State>,
}

struct State {
    command: Command,
    child: Option<Child>,
    status: Option<ExitStatus>,
    left_running: bool,
}

impl Process {
    /// Starts `command`, with its output appended to `NAME.log` in `log_dir` and no input.
    ///
    /// # Errors
    ///
    /// Fails when the log cannot be written or the program cannot be started.
    pub fn spawn(name: impl Into<String>, command: Command, log_dir: &Path) -> Result<Self> {
        let name = name.into();
        let log = log_dir.join(format!("{name}.log"));
        let state = State { command, child: None, status: None, left_running: false };
        let process = Self { name, log, state: Mutex::new(state) };
        process.start()?;
        Ok(process)
    }

    /// The name given to it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number, while it runs.
    pub fn pid(&self) -> Option<u32> {
        let mut state = self.state();
        state.look(&self.name).ok()?;
        state.child.as_ref().map(Child::id)
    }

    /// Returns whether it runs. A frozen process does.
    pub fn is_running(&self) -> bool {
        self.pid().is_some()
    }

    /// Exit status of its last run; none while it runs.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        let mut state = self.state();
        state.look(&self.name).ok()?;
        state.status
    }

    /// The file with what it writes to standard output and error, of all its runs.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// Output so far.
    ///
    /// # Errors
    ///
    /// Fails when the log cannot be read.
    pub fn log(&self) -> Result<String> {
        let bytes = std::fs::read(&self.log).map_err(Error::file("read", &self.log))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The present length of the log in bytes, for [`Process::wait_for_log_since`].
    ///
    /// # Errors
    ///
    /// Fails when the log cannot be read.
    pub fn mark(&self) -> Result<usize> {
        self.log().map(|log| log.len())
    }

    /// Starts it again with the same command. Nothing happens when it runs.
    ///
    /// # Errors
    ///
    /// As for [`Process::spawn`].
    pub fn start(&self) -> Result<()> {
        let mut state = self.state();
        state.look(&self.name)?;
        if state.child.is_some() {
            return Ok(());
        }
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .map_err(Error::file("write", &self.log))?;
        let errors = log.try_clone().map_err(Error::file("write", &self.log))?;
        let child = state
            .command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(self.cannot("start"))?;
        let pid = child.id();
        // The child is recorded first, so that it is killed if nobody can watch over it.
        state.child = Some(child);
        state.status = None;
        state.left_running = false;
        reaper::watch_process(pid).map_err(self.cannot("watch over"))
    }

    /// Sends a signal.
    ///
    /// # Errors
    ///
    /// Fails when it is not running.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        // The state stays locked, so that nobody collects the process and its number keeps its meaning.
        let mut state = self.state();
        state.look(&self.name)?;
        let Some(child) = &state.child else {
            return Err(Error::NotRunning { name: self.name.clone() });
        };
        let status = Command::new("sh")
            .args(["-c", "kill -s \"$1\" \"$2\"", "kill", signal.name(), &child.id().to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(self.cannot("signal"))?;
        if status.success() { Ok(()) } else { Err(self.cannot("signal")(io::Error::other("kill failed"))) }
    }

    /// Freezes it (SIGSTOP): its connections stay open and nothing answers.
    ///
    /// # Errors
    ///
    /// Fails when it is not running.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::Stop)?;
        // Each thread stops when it next returns from the kernel.
        let stopped = || self.pid().is_none_or(is_stopped);
        for _ in 0..LOOKS {
            if stopped() {
                break;
            }
            std::thread::sleep(INTERVAL);
        }
        Ok(())
    }

    /// Lets it go on after [`Process::pause`].
    ///
    /// # Errors
    ///
    /// Fails when it is not running.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::Continue)
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] when it still runs after `timeout`.
    pub async fn wait(&self, timeout: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            {
                let mut state = self.state();
                state.look(&self.name)?;
                match (&state.child, state.status) {
                    (None, Some(status)) => return Ok(status),
                    (None, None) => {
                        return Err(Error::NotRunning { name: self.name.clone() });
                    }
                    _ => {}
                }
            }
            if Instant::now() >= deadline {
                let what = format!("the end of {}", self.name);
                return Err(crate::TimedOut { what, after: timeout, last: "it runs".to_owned() }.into());
            }
            sleep(INTERVAL).await;
        }
    }

    /// Sends SIGTERM and waits for the end, for 30 s at most.
    ///
    /// # Errors
    ///
    /// [`Error::NotRunning`], or [`Error::Killed`] when it did not end and was killed.
    pub async fn terminate(&self) -> Result<ExitStatus> {
        self.signal(Signal::Terminate)?;
        // A frozen process would not learn of it. One that has ended meanwhile needs no waking.
        self.signal(Signal::Continue).ok();
        match self.wait(GRACE).await {
            Err(Error::TimedOut(_)) => {
                self.kill()?;
                Err(Error::Killed { name: self.name.clone(), after: GRACE })
            }
            ended => ended,
        }
    }

    /// Ends it at once (SIGKILL) and collects it. Nothing happens when it is not running.
    ///
    /// # Errors
    ///
    /// Fails when the system refuses.
    pub fn kill(&self) -> Result<()> {
        let mut state = self.state();
        if let Some(child) = &mut state.child {
            child.kill().map_err(self.cannot("kill"))?;
            let status = child.wait().map_err(self.cannot("wait for"))?;
            state.ended(status);
        }
        Ok(())
    }

    /// Terminates it, if it runs, and starts it again.
    ///
    /// # Errors
    ///
    /// As for [`Process::terminate`] and [`Process::start`].
    pub async fn restart(&self) -> Result<()> {
        match self.terminate().await {
            Ok(_) | Err(Error::NotRunning { .. }) => self.start(),
            Err(error) => Err(error),
        }
    }

    /// Lets it live on when this value is dropped and when the owner dies.
    pub fn leave_running(&self) {
        let mut state = self.state();
        state.left_running = true;
        if let Some(child) = &state.child {
            reaper::forget_process(child.id());
        }
    }

    fn cannot(&self, action: &'static str) -> impl Fn(io::Error) -> Error {
        let name = self.name.clone();
        move |source| Error::Process { action, name: name.clone(), source }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notices the end of the process.
    fn look(&mut self, name: &str) -> Result<()> {
        if let Some(child) = &mut self.child {
            let looked = child.try_wait();
            let status = looked.map_err(|source| Error::Process {
                action: "look at",
                name: name.to_owned(),
                source,
            })?;
            if let Some(status) = status {
                self.ended(status);
            }
        }
        Ok(())
    }

    fn ended(&mut self, status: ExitStatus) {
        if let Some(child) = self.child.take() {
            reaper::forget_process(child.id());
        }
        self.status = Some(status);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.state().left_running {
            // What cannot be killed here is left to the reaper.
            self.kill().ok();
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Process")
            .field("name", &self.name)
            .field("pid", &self.pid())
            .finish_non_exhaustive()
    }
}

/// Returns true when every thread of a process is stopped, or the process is gone.
fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let status = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The name before it can hold parentheses.
        status
            .rsplit(") ")
            .next()
            .is_none_or(|rest| rest.is_empty() || rest.starts_with(['T', 't', 'Z', 'X']))
    })
}
