//! The agent's child processes: the commands that it runs, and the orphans that they leave.
//!
//! Where the agent is the first process of its container, the system hands it every process whose parent has ended,
//! such as what a command left in the background. Each stays as a zombie, and counts against the container's limit of
//! processes, until its parent has waited for it.

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

/// How many commands run. It belongs to the process, as do its children.
static RUNNING: Mutex<usize> = Mutex::new(0);
/// Told when the last of them has ended.
static NONE_RUNS: Notify = Notify::const_new();

/// Locked whenever a command is started or any child is waited for: the status of a command is for who started it.
fn running() -> MutexGuard<'static, usize> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts one command that runs.
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
    /// Until its status is known.
    running: Option<Running>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let mut running = running();
        let child = command.spawn()?;
        *running += 1;
        Ok(Self { child, running: Some(Running) })
    }

    /// Its standard output and standard error, to the first who asks.
    pub(crate) fn output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// Its number, until its status is known.
    pub(crate) fn id(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()?).ok()?)
    }

    /// Waits for its end. Nothing is lost when this is dropped.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        self.running = None;
        status
    }
}

/// Waits for orphans, until `shutdown`. While a command runs they stay zombies: which of them ended is known only by
/// taking its status, and that may be the command's. What else starts a process (a kubeconfig's plugin for credentials)
/// waits for it without a pause, on the agent's one thread.
///
/// `ended` is the signal SIGCHLD.
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
