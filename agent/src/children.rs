//! The agent's child processes: the commands that it runs, and the orphans that they leave.
//!
//! The first process of a container becomes the parent of every process whose parent has ended, such as one
//! that a command left in the background. Each stays as a zombie until its parent has waited for it, and
//! counts against the container's limit of processes.

use std::{
    io,
    process::ExitStatus,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::process::{Pid, WaitOptions, wait};
use tokio::{
    process::{Child, ChildStderr, ChildStdout, Command},
    signal::unix::Signal,
    sync::Notify,
};
use tokio_util::sync::CancellationToken;

/// Number of commands that run. It belongs to the process, as its children do.
static RUNNING: Mutex<usize> = Mutex::new(0);
/// Notified when the last command has ended.
static NONE_RUNS: Notify = Notify::const_new();

/// Lock for starting a command and for waiting for any child: only the starter takes the status of its
/// command.
fn running() -> MutexGuard<'static, usize> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts one command while it runs.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = running();
        *running = running.saturating_sub(1);
        if *running == 0 {
            NONE_RUNS.notify_one();
        }
    }
}

/// The process of a command.
pub(crate) struct Process {
    child: Child,
    /// Present until the status is known.
    running: Option<Running>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let mut running = running();
        let child = command.spawn()?;
        *running += 1;
        Ok(Self { child, running: Some(Running) })
    }

    /// Standard output and standard error, for the first caller.
    pub(crate) fn output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// The process ID, until the status is known.
    pub(crate) fn id(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()?).ok()?)
    }

    /// Waits for the end. Dropping the future loses nothing.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        self.running = None;
        status
    }
}

/// Waits for orphans until `shutdown` is cancelled.
///
/// While a command runs, orphans stay zombies: waiting for any child could take the status of the command.
/// Other starters of processes, such as a kubeconfig's plugin for credentials, wait on the agent's one thread
/// without a pause. `ended` is the signal SIGCHLD.
pub(crate) async fn reap(mut ended: Signal, shutdown: CancellationToken) {
    loop {
        reap_now();
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = ended.recv() => {}
            () = NONE_RUNS.notified() => {}
        }
    }
}

fn reap_now() {
    let running = running();
    if *running > 0 {
        return;
    }
    // An error says that there are no children.
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        tracing::debug!(%pid, ?status, "an orphan has ended");
    }
}
