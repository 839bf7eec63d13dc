//! Runs of a command, and their end.

use std::{io::Write, process::Stdio, time::Duration};

use rustix::{
    io::Errno,
    process::{Signal, kill_process_group, test_kill_process_group},
};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::{
    bounds::Bounds,
    children::Process,
    context::Context,
    output::{Tail, follow},
    verdict::Verdict,
};

/// Time for which the output is read after the end of the command. A process left behind can hold it open.
const AFTER: Duration = Duration::from_millis(500);

/// Interval of looks at a process group. The system does not report the end of processes that are no
/// children.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a command until it ends, `stop` is cancelled or the limit is reached. Its output goes to the agent's
/// own log.
///
/// A command that did not end by itself is ended with its whole process group: by SIGTERM, and after the
/// grace by SIGKILL.
pub(crate) async fn run(
    command: &[String],
    context: &Context,
    bounds: Bounds,
    stop: &CancellationToken,
) -> Verdict {
    // A log that cannot be written to changes nothing.
    let pass_on = |bytes: &[u8]| {
        std::io::stderr().write_all(bytes).ok();
    };
    run_with(command, context, bounds, stop, &pass_on).await
}

async fn run_with(
    command: &[String],
    context: &Context,
    bounds: Bounds,
    stop: &CancellationToken,
    pass_on: &(impl Fn(&[u8]) + Sync),
) -> Verdict {
    let failure = |message: String| Verdict::Failure { message };
    let Some((program, arguments)) = command.split_first() else {
        return failure("there is no command".to_owned());
    };
    let mut prepared = Command::new(program);
    prepared
        .args(arguments)
        .envs(context.environment())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut process = match Process::start(&mut prepared) {
        Ok(process) => process,
        Err(error) => return failure(format!("{program} did not start: {error}")),
    };
    let (out, err) = process.output();
    let (mut stdout, mut stderr) = (Tail::default(), Tail::default());
    let over = CancellationToken::new();
    let command = async {
        let ended = end(&mut process, program, bounds, stop).await;
        over.cancel();
        ended
    };
    let output = async {
        tokio::select! {
            _ = async { tokio::join!(follow(out, &mut stdout, pass_on), follow(err, &mut stderr, pass_on)) } => {}
            () = async { over.cancelled().await; tokio::time::sleep(AFTER).await } => {}
        }
    };
    let (ended, ()) = tokio::join!(command, output);
    match ended {
        Ok(Some(status)) => Verdict::of_exit(status, &stdout.text(), &stderr.text()),
        Ok(None) => failure(format!("{program} was stopped")),
        Err(message) => failure(message),
    }
}

/// The status of a command that ended by itself; none if it was stopped.
async fn end(
    process: &mut Process,
    program: &str,
    bounds: Bounds,
    stop: &CancellationToken,
) -> Result<Option<std::process::ExitStatus>, String> {
    let late = tokio::select! {
        status = process.wait() => {
            return status.map(Some).map_err(|error| format!("{program} was lost: {error}"));
        }
        () = stop.cancelled() => false,
        () = tokio::time::sleep(bounds.limit) => true,
    };
    end_group(process, bounds.grace).await;
    if late {
        let limit = humantime::format_duration(bounds.limit);
        return Err(format!("{program} took longer than {limit}"));
    }
    Ok(None)
}

/// Ends the process group of a running command.
async fn end_group(process: &mut Process, grace: Duration) {
    // The command leads its group, whose ID is its own.
    let Some(group) = process.id() else { return };
    // A group that is gone needs no signal.
    kill_process_group(group, Signal::TERM).ok();
    let gone = async {
        process.wait().await.ok();
        // The ID is not reused while a process of the group is left.
        while test_kill_process_group(group) != Err(Errno::SRCH) {
            tokio::time::sleep(LOOK).await;
        }
    };
    if tokio::time::timeout(grace, gone).await.is_err() {
        kill_process_group(group, Signal::KILL).ok();
        tokio::time::timeout(grace, process.wait()).await.ok();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Instant,
    };

    use super::*;

    const BOUNDS: Bounds = Bounds { limit: Duration::from_mins(1), grace: Duration::from_millis(200) };

    async fn sh(script: &str, bounds: Bounds, stop: &CancellationToken) -> Verdict {
        let command = ["sh", "-c", script].map(str::to_owned);
        run_with(&command, &Context::pre_stop(), bounds, stop, &|_| {}).await
    }

    #[tokio::test]
    async fn a_command_answers_by_its_exit_code_and_its_last_lines() {
        let accept = sh("echo $EVACUATION_EVENT", BOUNDS, &CancellationToken::new()).await;
        assert_eq!(accept, Verdict::Accept { message: "PreStop".into() });
        let refuse = sh("echo no >&2; exit 1", BOUNDS, &CancellationToken::new()).await;
        assert_eq!(refuse, Verdict::Refuse { message: "no".into(), retry_after: None });
    }

    #[tokio::test]
    async fn much_output_does_not_hold_a_command_up() {
        let script = "head -c 1000000 /dev/zero | tr '\\0' '\\n' >/dev/stdout; echo done";
        let command = ["sh", "-c", script].map(str::to_owned);
        let passed = AtomicUsize::new(0);
        let pass_on = |bytes: &[u8]| {
            passed.fetch_add(bytes.len(), Ordering::Relaxed);
        };
        let stop = CancellationToken::new();
        let verdict = run_with(&command, &Context::pre_stop(), BOUNDS, &stop, &pass_on).await;
        assert_eq!(verdict, Verdict::Accept { message: "done".into() });
        assert_eq!(passed.into_inner(), 1_000_005);
    }

    #[tokio::test]
    async fn what_a_command_leaves_running_does_not_hold_it_open() {
        let begin = Instant::now();
        let verdict = sh("sleep 20 & echo done", BOUNDS, &CancellationToken::new()).await;
        assert_eq!(verdict, Verdict::Accept { message: "done".into() });
        assert!(begin.elapsed() < Duration::from_secs(15));
    }

    #[tokio::test]
    async fn a_command_that_does_not_exist_gives_no_answer() {
        let command = ["/no/such/program".to_owned()];
        let verdict = run(&command, &Context::pre_stop(), BOUNDS, &CancellationToken::new()).await;
        let Verdict::Failure { message } = verdict else { panic!("{verdict:?}") };
        assert!(message.starts_with("/no/such/program did not start"), "{message}");
    }

    #[tokio::test]
    async fn a_command_that_is_stopped_gets_sigterm_and_then_sigkill() {
        let folder = tempfile::tempdir().unwrap();
        let marks = folder.path().join("marks");
        // The inner shell is a child of the command: the whole group is ended.
        let script = format!(
            "trap 'echo term >> {0}' TERM; echo up >> {0}; while true; do sh -c 'sleep 0.05'; done",
            marks.display()
        );
        let stop = CancellationToken::new();
        let run = sh(&script, BOUNDS, &stop);
        let stopper = async {
            while std::fs::read_to_string(&marks).unwrap_or_default() != "up\n" {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            stop.cancel();
        };
        let (verdict, ()) = tokio::join!(run, stopper);
        assert_eq!(verdict, Verdict::Failure { message: "sh was stopped".into() });
        assert_eq!(std::fs::read_to_string(&marks).unwrap(), "up\nterm\n");
    }

    #[tokio::test]
    async fn a_command_that_takes_too_long_is_stopped() {
        let bounds = Bounds { limit: Duration::from_millis(100), ..BOUNDS };
        let verdict = sh("exec sleep 60", bounds, &CancellationToken::new()).await;
        let message = "sh took longer than 100ms".to_owned();
        assert_eq!(verdict, Verdict::Failure { message });
    }

    /// Returns whether a process runs. One that has ended can wait for its parent as a zombie.
    fn runs(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        let state = stat.rsplit(") ").next().unwrap_or_default();
        !(state.is_empty() || state.starts_with(['Z', 'X']))
    }

    async fn stopped_with_a_child(trap: &str, grace: Duration) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let (pid, path) = (folder.path().join("pid"), folder.path().display());
        let child = format!(
            "trap '{trap}' TERM; echo $$ > {path}/new; mv {path}/new {path}/pid; while :; do sleep 0.05; done"
        );
        let child = child.replace("FOLDER", &folder.path().display().to_string());
        std::fs::write(folder.path().join("child"), child).unwrap();
        let stop = CancellationToken::new();
        // The command has no trap: it ends at once, and leaves its child.
        let script = format!("sh {path}/child & wait");
        let bounds = Bounds { grace, ..BOUNDS };
        let stopper = async {
            while !pid.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            stop.cancel();
        };
        tokio::join!(sh(&script, bounds, &stop), stopper);
        let pid = std::fs::read_to_string(pid).unwrap();
        (folder, pid)
    }

    #[tokio::test]
    async fn a_child_that_ignores_sigterm_does_not_outlive_its_command() {
        let (_folder, pid) = stopped_with_a_child("", BOUNDS.grace).await;
        let begin = Instant::now();
        while runs(&pid) {
            assert!(begin.elapsed() < Duration::from_secs(10), "{pid} still runs");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_child_has_the_grace_though_its_command_ended_before() {
        let (folder, pid) =
            stopped_with_a_child("sleep 1; touch FOLDER/clean; exit", Duration::from_secs(20)).await;
        assert!(!runs(&pid));
        assert!(folder.path().join("clean").exists());
    }
}
