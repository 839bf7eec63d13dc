//! Exit codes.

use std::process::ExitCode;

use clap::Parser;

use crate::{complaint::complaint, output::is_unread};

/// How a command ended. The codes are API: scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: all that was asked for happened.
    Done,
    /// 1: something went wrong.
    Errors,
    /// 2: a pod was left alone, as the policy wants it: a responder refused, or a deadline gave up.
    Refused,
    /// 3: the time ran out.
    TimedOut,
    /// 130, as shells have it: Ctrl-C.
    Interrupted,
    /// 141, as shells have it: nobody reads the output any more.
    Unread,
}

impl Exit {
    /// The code that the shell sees.
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

/// Reads the command line and runs the command; what goes wrong becomes an exit code, and an error is printed with all its
/// causes.
///
/// A command line that makes no sense ends with 1, not with clap's 2, which means a refusal here. Ctrl-C takes nothing back.
pub fn run<C: Parser, F: Future<Output = anyhow::Result<Exit>>>(command: impl FnOnce(C) -> F) -> ExitCode {
    let parsed = match C::try_parse() {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help, or what is wrong with the arguments. Where it cannot be written the code tells all the same.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(Exit::Errors.code()) } else { ExitCode::SUCCESS };
        }
    };
    // Only one provider is compiled in; that one is installed already can only be another call of this function.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: the runtime did not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(async {
        let interrupted = async {
            // Without a handler Ctrl-C still ends the process, only without a word.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            ended = command(parsed) => Some(ended),
            () = interrupted => None,
        }
    });
    let exit = match ended {
        Some(Ok(exit)) => exit,
        Some(Err(error)) if is_unread(&error) => Exit::Unread,
        Some(Err(error)) => {
            eprintln!("error: {}", complaint(&error));
            Exit::Errors
        }
        None => {
            eprintln!(
                "interrupted: what was begun goes on, see kubectl get evacuations; deleting an evacuation takes it back"
            );
            Exit::Interrupted
        }
    };
    ExitCode::from(exit.code())
}
