use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crate::TimedOut;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Failure of a part of the control plane to start, answer or stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The action: `write`, `create`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A program could not be started, signalled or waited for.
    #[error("cannot {action} {name}")]
    Process {
        /// The action: `start`, `signal`.
        action: &'static str,
        /// The name given to the process.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// A process that should run has ended.
    #[error("{name} ended with {status}; the end of {}:\n{tail}", log.display())]
    Exited {
        /// The name given to the process.
        name: String,
        /// Its exit status.
        status: ExitStatus,
        /// Its log file.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// A process is not running.
    #[error("{name} is not running")]
    NotRunning {
        /// The name given to the process.
        name: String,
    },
    /// A process did not end in time after SIGTERM, and was killed.
    #[error("{name} did not end within {after:?} of SIGTERM and was killed")]
    Killed {
        /// The name given to the process.
        name: String,
        /// Its time limit.
        after: Duration,
    },
    /// A process runs but did not become ready in time.
    #[error("{name} is not ready; the end of {}:\n{tail}", log.display())]
    NotReady {
        /// The name given to the process.
        name: String,
        /// Its log file.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
        /// The condition.
        source: Box<TimedOut>,
    },
    /// A condition did not come true in time.
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    /// The folder that `CONTROLPLANE_BIN` names lacks a program.
    #[error("{program} is not in {}, the folder that CONTROLPLANE_BIN names", folder.display())]
    MissingBinary {
        /// The program.
        program: &'static str,
        /// The folder.
        folder: PathBuf,
    },
    /// The programs have to be built, and there is no Go.
    #[error(
        "{programs} not found, and the `go` command that would build them is missing: install Go 1.26 or later \
         (https://go.dev/dl), or let CONTROLPLANE_BIN name a folder with the programs"
    )]
    GoMissing {
        /// The programs that were looked for.
        programs: String,
    },
    /// `go` failed to build a program.
    #[error("`{command}` in {} ended with {status}", folder.display())]
    GoBuild {
        /// The command.
        command: String,
        /// Its folder.
        folder: PathBuf,
        /// Its exit status.
        status: ExitStatus,
    },
    /// No user cache folder is known.
    #[error("neither XDG_CACHE_HOME nor HOME is set: there is no folder to build into")]
    NoCacheFolder,
    /// All ports or networks set aside for control planes are in use.
    #[error("no {what} is free")]
    Exhausted {
        /// The request.
        what: &'static str,
    },
    /// A certificate could not be made.
    #[error("cannot issue a certificate for {name}")]
    Certificate {
        /// The subject.
        name: String,
        /// The cause.
        source: rcgen::Error,
    },
    /// A client of the API server could not be set up.
    #[error("cannot make a client for {user}")]
    ClientConfig {
        /// The user.
        user: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The API server refused a request or did not answer.
    #[error("cannot {action} {what}")]
    Request {
        /// The action: `create`, `list`.
        action: &'static str,
        /// The object.
        what: String,
        /// The answer.
        source: Box<kube::Error>,
    },
    /// A folder could not be removed.
    #[error("{} could not be removed", path.display())]
    FolderLeft {
        /// The folder.
        path: PathBuf,
    },
    /// A background task of this crate did not finish.
    #[error("the search for binaries was cut off")]
    Task(#[from] tokio::task::JoinError),
}

impl Error {
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    pub(crate) fn request(action: &'static str, what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Request { action, what, source: Box::new(source) }
    }
}
