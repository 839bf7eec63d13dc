//! Programs that render a folder: kustomize and Helm.
//!
//! A stranger may have written the folder, so a tool gets an environment without secrets and without a
//! network, no plugins, and a limit of time and of output. The program itself never comes from the folder.

use std::{
    env,
    ffi::OsStr,
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use super::text::MAX_BYTES;
use crate::plain::plain;

/// Maximum size of the errors of a tool that is read, in bytes.
const MAX_ERROR_BYTES: u64 = 64 * 1024;
/// Maximum length of the line of a failed tool that is shown, in characters.
const MAX_LINE: usize = 400;
/// Time between two looks at whether a tool that has closed its output has ended.
const POLL: Duration = Duration::from_millis(10);
/// Variables of the user that a tool gets. A program on the PATH can be a script of a version manager.
const KEPT: [&str; 6] = ["HOME", "USERPROFILE", "SystemRoot", "TMPDIR", "TEMP", "TMP"];
/// Address at which no proxy listens.
const NO_PROXY: &str = "http://127.0.0.1:9";
/// Variables that keep a tool from the network and from plugins.
const SET: [(&str, &str); 6] = [
    ("HTTP_PROXY", NO_PROXY),
    ("HTTPS_PROXY", NO_PROXY),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("HELM_NO_PLUGINS", "1"),
    ("KUBERC", "off"),
];

/// Limits of one run.
#[derive(Debug)]
pub(super) struct Limits {
    /// Time until the tool is killed.
    pub(super) time: Duration,
    /// Size of its output, in bytes.
    pub(super) bytes: u64,
}

/// Limits of the command.
pub(super) const LIMITS: Limits = Limits { time: Duration::from_mins(1), bytes: MAX_BYTES };

/// Reasons for which a folder could not be rendered. The caller names the folder.
#[derive(Debug, thiserror::Error)]
pub(super) enum RenderError {
    /// The program cannot be run, or its output not be read.
    #[error("{tool} cannot be run")]
    Run {
        /// Name of the tool.
        tool: &'static str,
        /// Cause.
        source: io::Error,
    },
    /// The tool was killed at its limit of time.
    #[error("{tool} did not end within {} s", time.as_secs())]
    TimedOut {
        /// Name of the tool.
        tool: &'static str,
        /// The limit.
        time: Duration,
    },
    /// The tool was killed at its limit of output.
    #[error("{tool} printed more than {bytes} bytes")]
    TooLarge {
        /// Name of the tool.
        tool: &'static str,
        /// The limit.
        bytes: u64,
    },
    /// The tool reported an error.
    #[error("{tool} failed: {line}")]
    Failed {
        /// Name of the tool.
        tool: &'static str,
        /// First line of its errors.
        line: String,
    },
}

/// Program with the arguments by which it renders the folder that it runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    /// Words by which the output names the tool.
    pub(super) name: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
}

/// Tools of this machine.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// `kustomize`, or else `kubectl`.
    pub(super) kustomize: Option<Tool>,
    /// `helm`
    pub(super) helm: Option<Tool>,
}

impl Tools {
    /// Looks the tools up in a PATH.
    pub(super) fn of_path(path: &OsStr) -> Self {
        let tool = |program: &str, name, arguments| {
            find(path, program).map(|program| Tool { name, program, arguments })
        };
        let kustomize = tool("kustomize", "kustomize build", &["build", "."]);
        Self {
            kustomize: kustomize.or_else(|| tool("kubectl", "kubectl kustomize", &["kustomize", "."])),
            helm: tool("helm", "helm template", &["template", "lint", "."]),
        }
    }
}

/// Returns a program of a PATH. A relative entry could lead into the folder that is rendered.
fn find(path: &OsStr, program: &str) -> Option<PathBuf> {
    let file = format!("{program}{}", env::consts::EXE_SUFFIX);
    absolute(path).map(|folder| folder.join(&file)).find(|path| is_executable(path))
}

fn absolute(path: &OsStr) -> impl Iterator<Item = PathBuf> {
    env::split_paths(path).filter(|folder| folder.is_absolute())
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

impl Tool {
    /// Renders a folder. Returns what the tool printed.
    ///
    /// # Errors
    ///
    /// The tool cannot be run, failed, or reached a limit and was killed.
    pub(super) fn render(&self, folder: &Path, limits: &Limits) -> Result<Vec<u8>, RenderError> {
        let child = self.command(folder).spawn();
        let mut child = child.map_err(|source| RenderError::Run { tool: self.name, source })?;
        let output = self.output(&mut child, limits);
        if output.is_err() {
            // The tool can have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
        output
    }

    fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.arguments).current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Without a home Helm reads its plugins from the folder.
        command.env_clear().env("HOME", "/nonexistent");
        command.envs(KEPT.iter().filter_map(|name| Some((name, env::var_os(name)?)))).envs(SET);
        let path = env::var_os("PATH").unwrap_or_default();
        command.env("PATH", env::join_paths(absolute(&path)).unwrap_or_default());
        command
    }

    fn output(&self, child: &mut Child, limits: &Limits) -> Result<Vec<u8>, RenderError> {
        let tool = self.name;
        let failed = |source| RenderError::Run { tool, source };
        let timed_out = || RenderError::TimedOut { tool, time: limits.time };
        let deadline = Instant::now() + limits.time;
        let output = read(child.stdout.take(), limits.bytes.saturating_add(1));
        let errors = read(child.stderr.take(), MAX_ERROR_BYTES);
        let output = output.recv_timeout(limits.time).map_err(|_| timed_out())?.map_err(failed)?;
        if u64::try_from(output.len()).is_ok_and(|size| size > limits.bytes) {
            return Err(RenderError::TooLarge { tool, bytes: limits.bytes });
        }
        let status = loop {
            match child.try_wait().map_err(failed)? {
                Some(status) => break status,
                None if Instant::now() < deadline => thread::sleep(POLL),
                None => return Err(timed_out()),
            }
        };
        if status.success() {
            return Ok(output);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let errors = errors.recv_timeout(left).ok().and_then(Result::ok).unwrap_or_default();
        let line = first_line(&String::from_utf8_lossy(&errors)).unwrap_or_else(|| status.to_string());
        Err(RenderError::Failed { tool, line })
    }
}

/// Reads at most that many bytes in a thread, and then drops the rest, so that the tool does not wait. A
/// program that the tool left behind can hold the stream open: nothing waits for the thread.
fn read<R: Read + Send + 'static>(stream: Option<R>, most: u64) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let Some(mut stream) = stream else { return };
        let mut bytes = Vec::new();
        let size = stream.by_ref().take(most).read_to_end(&mut bytes);
        // The receiver has gone when the tool was killed.
        let _ = sender.send(size.map(|_| bytes));
        let _ = io::copy(&mut stream, &mut io::sink());
    });
    receiver
}

/// Returns the first line of errors that is no warning, without the head of a log line.
fn first_line(errors: &str) -> Option<String> {
    let is_warning =
        |line: &str| ["# warning", "warning"].iter().any(|word| line.to_lowercase().starts_with(word));
    let mut lines = errors.lines().map(str::trim).filter(|line| !line.is_empty() && !is_warning(line));
    let line = lines.next()?;
    let line = match line.split_once("] \"command failed\" err=") {
        Some((_, "<")) => lines.next().unwrap_or(line),
        Some((_, error)) => error.trim_matches('"'),
        None => line,
    };
    Some(plain(&line.chars().take(MAX_LINE).collect::<String>()))
}

#[cfg(test)]
mod tests;
