//! Exit codes.

use std::process::ExitCode;

/// How a command ended. The codes are API: scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: all that was asked for happened.
    Done,
    /// 1: something went wrong.
    Errors,
    /// 2: a responder refused, and the pod was left alone.
    Refused,
    /// 3: the time ran out.
    TimedOut,
}

impl Exit {
    /// The code that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Errors => 1,
            Self::Refused => 2,
            Self::TimedOut => 3,
        }
    }
}

/// Runs a command and turns its end into an exit code; an error is printed with all its causes.
pub fn run(command: impl Future<Output = anyhow::Result<Exit>>) -> ExitCode {
    // Only one provider is compiled in; that one is installed already can only be another call of this function.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: the runtime did not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let exit = runtime.block_on(command).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        Exit::Errors
    });
    ExitCode::from(exit.code())
}
