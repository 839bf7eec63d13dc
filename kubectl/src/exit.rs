//! Exit codes.

use std::process::ExitCode;

use clap::Parser;

use crate::{
    complaint::complaint,
    foreign_flag::explained,
    output::{is_unread, warn},
};

/// Exit of a command. The codes are API: scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: success.
    Done,
    /// 1: an error.
    Errors,
    /// 2: a pod was left alone by policy: a responder refused, or a deadline gave up.
    Refused,
    /// 3: the timeout was reached.
    TimedOut,
    /// 130, as in shells: Ctrl-C.
    Interrupted,
    /// 141, as in shells: the reader of the output has gone.
    Unread,
}

impl Exit {
    /// The code for the shell.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Errors => 1,
            Self::Refused => 2,
            Self::TimedOut => 3,
            Self::Interrupted => 130,
            Self::Unread => 141,
        }
    }
}

/// Reads the command line and runs the command. An error becomes an exit code, and is printed with its
/// causes.
///
/// An invalid command line ends with 1: clap's 2 means a refusal here. Ctrl-C withdraws nothing, and prints
/// `interrupted`, unless the command handles it.
pub fn run<C: Parser, F: Future<Output = anyhow::Result<Exit>>>(
    command: impl FnOnce(C) -> F,
    interrupted: &str,
) -> ExitCode {
    let parsed = match C::try_parse() {
        Ok(parsed) => parsed,
        Err(error) => {
            let error = explained(error);
            // Help, or the error in the arguments. If it cannot be written, the code still tells.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(Exit::Errors.code()) } else { ExitCode::SUCCESS };
        }
    };
    // Only one provider is compiled in. An error says that an earlier call installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: the runtime did not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(async {
        let ctrl_c = async {
            // Without a handler Ctrl-C still ends the process, only silently.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        // A command that handles Ctrl-C itself ends first.
        tokio::select! {
            biased;
            ended = command(parsed) => Some(ended),
            () = ctrl_c => None,
        }
    });
    let exit = match ended {
        Some(Ok(exit)) => exit,
        Some(Err(error)) if is_unread(&error) => Exit::Unread,
        Some(Err(error)) => {
            warn(format_args!("error: {}", complaint(&error)));
            Exit::Errors
        }
        None => {
            eprintln!("interrupted: {interrupted}");
            Exit::Interrupted
        }
    };
    ExitCode::from(exit.code())
}
