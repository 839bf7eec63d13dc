//! The command line.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, error::ErrorKind};

use machinery_logging::LogOptions;

use crate::{action::Action, bounds::Bounds, call::LocalUrl};

/// Answers evacuations for an app that cannot be changed.
#[derive(Debug, Parser)]
#[command(name = "evacuation-agent", version)]
pub struct Options {
    #[command(subcommand)]
    pub(crate) mode: Mode,
}

/// Flags that take a command.
const COMMANDS: [&str; 2] = ["--exec", "--on-cancel"];

impl Options {
    /// Reads the process's command line; ends the process, with an explanation, when it makes no sense.
    pub fn of_process() -> Self {
        Self::of(&std::env::args_os().collect::<Vec<_>>()).unwrap_or_else(|error| error.exit())
    }

    /// Returns the flags of the log. Modes that a person or a hook runs have no such flags.
    pub fn log(&self) -> LogOptions {
        match &self.mode {
            Mode::Run(run) => run.log,
            Mode::PreStop(_) | Mode::Install { .. } => LogOptions::default(),
        }
    }

    pub(crate) fn of(words: &[OsString]) -> Result<Self, clap::Error> {
        let options = Self::try_parse_from(words)?;
        match swallowed_flag(words) {
            None => Ok(options),
            Some((command, flag)) => Err(Self::command().error(
                ErrorKind::ArgumentConflict,
                format!(
                    "{flag} stands after {command} and would be an argument of its command. End the command with ';' \
                     before {flag}, or at the end of the line where {flag} belongs to the command"
                ),
            )),
        }
    }
}

/// Returns a flag of the agent inside of a command that no `;` ends, with the flag of that command.
fn swallowed_flag(words: &[OsString]) -> Option<(String, String)> {
    let mut words = words.iter().map(|word| word.to_string_lossy());
    words.next();
    let options = Options::command();
    let own: Vec<String> = options
        .find_subcommand(words.next()?.as_ref())?
        .get_arguments()
        .filter_map(|argument| Some(format!("--{}", argument.get_long()?)))
        .collect();
    while let Some(word) = words.next() {
        if !COMMANDS.contains(&word.as_ref()) {
            continue;
        }
        let mut swallowed = None;
        let ended = words.by_ref().any(|argument| {
            let flag = argument.split_once('=').map_or(argument.as_ref(), |(flag, _)| flag);
            if swallowed.is_none() && own.iter().any(|own| own == flag) {
                swallowed = Some(flag.to_owned());
            }
            argument == ";"
        });
        if !ended {
            return Some((word.into_owned(), swallowed?));
        }
    }
    None
}

#[derive(Debug, Subcommand)]
pub(crate) enum Mode {
    /// Answer evacuations of this pod.
    Run(Run),
    /// For a preStop hook: return at once if the work is done, else wait until it is.
    PreStop(PreStop),
    /// Copy this program to a path, such as a volume of the app's container.
    Install {
        /// The file to write.
        to: PathBuf,
    },
}

/// The action for a question: exactly one of the two.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Asked {
    /// The command to run when asked, with its arguments, up to an argument ";" or the end of the line.
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true, value_terminator = ";")]
    exec: Vec<String>,
    /// The URL to POST to when asked; its host must be this one, such as http://127.0.0.1:8080/drain.
    #[arg(long)]
    url: Option<LocalUrl>,
}

/// The action of a preStop hook without an agent, if any.
#[derive(Args, Debug)]
#[group(required = false, multiple = false)]
pub(crate) struct Fallback {
    /// The command to run when no agent answers, with its arguments, up to an argument ";" or the end of the
    /// line.
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true, value_terminator = ";")]
    exec: Vec<String>,
    /// The URL to POST to when no agent answers; its host must be this one.
    #[arg(long)]
    url: Option<LocalUrl>,
}

#[derive(Args, Debug)]
#[group(required = false, multiple = false)]
pub(crate) struct OnCancel {
    /// The command to run when the evacuation was canceled, with its arguments, up to an argument ";" or the
    /// end of the line.
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true, value_terminator = ";")]
    on_cancel: Vec<String>,
    /// The URL to POST to when the evacuation was canceled; its host must be this one.
    #[arg(long)]
    on_cancel_url: Option<LocalUrl>,
}

impl Asked {
    pub(crate) fn action(self) -> Option<Action> {
        Action::of(self.exec, self.url)
    }
}

impl Fallback {
    pub(crate) fn action(self) -> Option<Action> {
        Action::of(self.exec, self.url)
    }
}

impl OnCancel {
    pub(crate) fn action(self) -> Option<Action> {
        Action::of(self.on_cancel, self.on_cancel_url)
    }
}

/// Answer when the work fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    /// Accept.
    Accept,
    /// Refuse.
    Refuse,
    /// No answer: the platform continues after the timeout.
    Silent,
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) asked: Asked,
    #[command(flatten)]
    pub(crate) on_cancel: OnCancel,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
    /// The delay that is renewed while the work runs.
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) hold: Duration,
    /// After a refusal, ask again after this time.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub(crate) retry_after: Option<Duration>,
    /// The answer when the work fails: it did not start, was killed, took too long or gave an unknown status.
    #[arg(long, value_enum, default_value = "silent")]
    pub(crate) on_error: OnError,
    /// The Unix socket for preStop hooks, such as /run/evacuation/agent.sock.
    #[arg(long)]
    pub(crate) socket: Option<PathBuf>,
    /// The address that serves /livez and /readyz, such as 0.0.0.0:8099.
    #[arg(long)]
    pub(crate) health_address: Option<SocketAddr>,
    /// Fail /readyz while evacuations cannot be watched. The pod is then not ready either.
    #[arg(long, requires = "health_address")]
    pub(crate) ready_needs_api: bool,
    #[command(flatten)]
    pub(crate) log: LogOptions,
}

#[derive(Args, Debug)]
pub(crate) struct PreStop {
    /// The agent's Unix socket.
    #[arg(long, default_value = "/run/evacuation/agent.sock")]
    pub(crate) socket: PathBuf,
    /// Maximum wait for the work. Keep it shorter than the pod's grace period: the app needs time to end.
    #[arg(long, default_value = "25s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) fallback: Fallback,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        let words: Vec<_> =
            std::iter::once("evacuation-agent").chain(line.split(' ')).map(OsString::from).collect();
        Options::of(&words)
    }

    #[test]
    fn a_command_takes_its_own_flags_up_to_a_semicolon_or_the_end() {
        let options = parse("run --on-cancel undo --now ; --hold 5s --exec drain --fast 3 x").unwrap();
        let Mode::Run(run) = options.mode else { panic!("not run") };
        assert_eq!(run.asked.exec, ["drain", "--fast", "3", "x"]);
        assert_eq!(run.on_cancel.on_cancel, ["undo", "--now"]);
        assert_eq!(run.hold, Duration::from_secs(5));
    }

    #[test]
    fn a_flag_of_the_agent_inside_of_a_command_is_refused_unless_a_semicolon_ends_the_command() {
        for (line, flag) in [
            ("run --exec drain --on-error refuse", "--on-error stands after --exec"),
            ("run --exec drain --hold=5s", "--hold stands after --exec"),
            ("run --on-cancel undo ; --exec drain --on-cancel undo", "--on-cancel stands after --exec"),
            ("run --url http://127.0.0.1/ --on-cancel undo --hold 5s", "--hold stands after --on-cancel"),
            ("pre-stop --exec drain --timeout 5s", "--timeout stands after --exec"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(flag), "{line}: {error}");
        }
        for line in [
            "run --exec drain --on-error refuse ;",
            "run --exec drain ; --on-error refuse",
            "run --exec drain --timeout 5s",
            "pre-stop --exec drain --hold 5s",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn exactly_one_kind_of_work_is_wanted() {
        for line in [
            "run",
            "run --url http://127.0.0.1:1/ --exec drain",
            "run --exec",
            "run --url http://10.0.0.1:1/",
            "run --exec drain ; --hold soon",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_pre_stop_hook_needs_no_argument() {
        let options = parse("pre-stop").unwrap();
        let Mode::PreStop(hook) = options.mode else { panic!("not pre-stop") };
        assert!(hook.fallback.action().is_none());
    }
}
