use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::timeout;

use crate::{ControlPlane, Error, Program, Result, TimedOut};

/// Time limit of one call of kubectl.
const LONGEST: Duration = Duration::from_mins(5);

/// Output and exit code of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The exit code; nothing when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Returns whether it ended with code 0.
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }
}

impl ControlPlane {
    /// Runs kubectl as user `admin`, for five minutes at most, with this process' environment and no input.
    ///
    /// Its plugins are looked for on `PATH`: see [`ControlPlane::kubectl_command`] for more folders.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be started or does not end. A failure of its own is in the [`Output`].
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = self.kubectl_command(&[]);
        command.args(arguments);
        output_of("kubectl", command).await
    }

    /// A kubectl command to which arguments can be added, with `plugins` at the front of its `PATH`.
    ///
    /// The real kubectl is on that `PATH` too, so that a plugin which calls `kubectl` calls this one.
    pub fn kubectl_command(&self, plugins: &[&Path]) -> Command {
        let program = self.binaries().path(Program::Kubectl);
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = plugins.iter().copied().chain(program.parent());
        let folders = folders
            .map(OsStr::new)
            .chain(env::split_paths(&path).collect::<Vec<_>>().iter().map(OsStr::new))
            .map(OsStr::to_owned)
            .collect::<Vec<_>>();
        let mut command = Command::new(program);
        command
            .env("KUBECONFIG", self.kubeconfig())
            // What it learns of this API server is not for the user's own kubectl.
            .env("KUBECACHEDIR", self.folder().path().join("kubectl-cache"))
            .stdin(Stdio::null());
        if let Ok(joined) = env::join_paths(folders) {
            command.env("PATH", joined);
        }
        command
    }
}

/// Runs a command to its end, for five minutes at most, and returns what it printed.
///
/// # Errors
///
/// Fails when it cannot be started or does not end; then it is killed.
pub async fn output_of(name: &str, command: Command) -> Result<Output> {
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(true);
    let output = timeout(LONGEST, command.output())
        .await
        .map_err(|_| TimedOut {
            what: format!("the end of {name}"),
            after: LONGEST,
            last: "it runs".to_owned(),
        })?
        .map_err(|source| Error::Process { action: "run", name: name.to_owned(), source })?;
    Ok(Output {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
