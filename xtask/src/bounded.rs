//! Runs of programs with a limit of time.

use std::{
    fmt,
    io::{self, Read},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;

/// Time for the last output of a program that was killed.
const GRACE: Duration = Duration::from_secs(5);

/// Pause between two looks at a program that has closed its output.
const POLL: Duration = Duration::from_millis(5);

/// Result of a run.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Standard output and standard error, in the order in which they came.
    pub(crate) text: String,
    pub(crate) end: End,
    pub(crate) took: Duration,
}

/// The end of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Exited(ExitStatus),
    /// The program was killed at its limit.
    Killed,
    /// The program ended, but at its limit a process that it started still held its output.
    LeftProcess(ExitStatus),
}

impl End {
    /// Returns true for a success that left nothing behind.
    pub(crate) fn is_success(&self) -> bool {
        matches!(self, Self::Exited(status) if status.success())
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => status.fmt(f),
            Self::Killed => f.write_str("killed at its limit of time"),
            Self::LeftProcess(status) => {
                write!(f, "{status}, but a process that it started still has its output")
            }
        }
    }
}

/// Runs a program, and kills it at the limit, or when this process is killed. The processes that it started
/// are not killed: a control plane ends by its own reaper, a compiler when it is done.
///
/// # Errors
///
/// Fails when the program cannot be started or waited for.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> anyhow::Result<Ended> {
    let began = Instant::now();
    let name = command.get_program().display().to_string();
    let (mut output, log) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut child = command.spawn().with_context(|| format!("{name} did not start"))?;
    watch(&mut child).with_context(|| format!("{name} cannot be watched over"))?;
    // The program then holds the only other ends of the pipe.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let text = Arc::new(Mutex::new(Vec::new()));
    let (closed, close) = mpsc::channel();
    let written = Arc::clone(&text);
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = output.read(&mut buffer) {
            let read = buffer.get(..length).unwrap_or_default();
            written.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(read);
        }
        // Nobody listens when the limit has passed.
        let _ = closed.send(());
    });
    let closed = close.recv_timeout(limit).is_ok();
    // A program can close its output before its end.
    while closed && began.elapsed() < limit && child.try_wait()?.is_none() {
        thread::sleep(POLL);
    }
    let end = match child.try_wait()? {
        Some(status) if closed => End::Exited(status),
        Some(status) => End::LeftProcess(status),
        None => {
            child.kill()?;
            child.wait()?;
            let _ = close.recv_timeout(GRACE);
            End::Killed
        }
    };
    reaper::forget_process(child.id());
    let text = String::from_utf8_lossy(&text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
    Ok(Ended { text, end, took: began.elapsed() })
}

/// Lets the reaper kill a child when this process is killed.
///
/// # Errors
///
/// Fails when there is no reaper. The child is then killed, because nobody would end it.
pub(crate) fn watch(child: &mut Child) -> io::Result<()> {
    reaper::watch_process(child.id()).inspect_err(|_| {
        // A child that has ended can be killed, too. The reaper's error is the one that matters.
        if child.kill().is_ok() {
            let _ = child.wait();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> anyhow::Result<Ended> {
        let mut shell = Command::new("sh");
        run_within(shell.args(["-c", script]), limit)
    }

    #[test]
    fn a_program_has_its_output_in_order_and_its_status() -> anyhow::Result<()> {
        let ended = shell("echo one; echo two >&2; printf '\\377'; exit 3", Duration::from_mins(1))?;
        assert_eq!(ended.text, "one\ntwo\n\u{fffd}");
        assert!(matches!(ended.end, End::Exited(status) if status.code() == Some(3)), "{ended:?}");
        Ok(())
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_its_output_until_then_is_kept() -> anyhow::Result<()> {
        let ended = shell("echo begun; exec sleep 1000", Duration::from_secs(1))?;
        assert_eq!((ended.text.as_str(), ended.end), ("begun\n", End::Killed));
        Ok(())
    }

    #[test]
    fn a_process_that_a_program_left_behind_is_no_success() -> anyhow::Result<()> {
        let ended = shell("sleep 5 & echo begun", Duration::from_secs(1))?;
        assert!(matches!(ended.end, End::LeftProcess(status) if status.success()), "{ended:?}");
        assert!(!ended.end.is_success());
        Ok(())
    }
}
