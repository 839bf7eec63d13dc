//! The verdict of a run.

use std::{fmt, process::ExitStatus, time::Duration};

use evacuation_client::Answer;
use http::{HeaderMap, StatusCode, header::RETRY_AFTER};

use crate::plain::last_line;

/// The exit code for "not yet": `EX_TEMPFAIL` of sysexits.h.
pub(crate) const NOT_YET: i32 = 75;
/// Delay of a "not yet" without a number, and time until a URL is called again that names none in seconds.
const DEFAULT_DELAY: Duration = Duration::from_secs(30);

/// Verdict of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The work is done: the pod may go.
    Accept { message: String },
    /// The work is not done yet: run it again before that time is over.
    Delay { time: Duration, message: String },
    /// The pod should stay.
    Refuse { message: String, retry_after: Option<Duration> },
    /// The run gave no answer: it did not start, was killed, or took too long.
    Failure { message: String },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = match self {
            Self::Accept { message } => {
                f.write_str("done")?;
                message
            }
            Self::Delay { time, message } => {
                write!(f, "not yet, for {}", humantime::format_duration(*time))?;
                message
            }
            Self::Refuse { message, .. } => {
                f.write_str("refused")?;
                message
            }
            Self::Failure { message } => {
                f.write_str("failed")?;
                message
            }
        };
        if message.is_empty() { Ok(()) } else { write!(f, ": {message}") }
    }
}

impl Verdict {
    /// Reads an exit status and the last lines of the output.
    ///
    /// 126 and 127 are a shell's "cannot run" and "not found", those above a shell's "killed by a signal".
    pub(crate) fn of_exit(status: ExitStatus, stdout: &str, stderr: &str) -> Self {
        match status.code() {
            Some(0) => Self::Accept { message: last_line(stdout) },
            Some(NOT_YET) => Self::Delay {
                time: seconds(&last_line(stdout)).unwrap_or(DEFAULT_DELAY),
                message: last_line(stderr),
            },
            Some(code @ 1..=125) => Self::Refuse {
                message: first_of([last_line(stderr), last_line(stdout), format!("exit code {code}")]),
                retry_after: None,
            },
            _ => Self::Failure {
                message: first_of([last_line(stderr), format!("the command ended with {status}")]),
            },
        }
    }

    /// Reads an HTTP reply. A `Retry-After` that is no number of seconds, such as a date, counts as
    /// [`DEFAULT_DELAY`].
    pub(crate) fn of_reply(status: StatusCode, headers: &HeaderMap, body: &str) -> Self {
        let retry_after = headers.get(RETRY_AFTER);
        let retry_after =
            retry_after.map(|value| value.to_str().ok().and_then(seconds).unwrap_or(DEFAULT_DELAY));
        match (status, retry_after) {
            (StatusCode::ACCEPTED, _)
            | (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, Some(_)) => {
                Self::Delay { time: retry_after.unwrap_or(DEFAULT_DELAY), message: last_line(body) }
            }
            (status, _) if status.is_success() => Self::Accept { message: last_line(body) },
            (StatusCode::CONFLICT, retry_after) => {
                Self::Refuse { message: first_of([last_line(body), status.to_string()]), retry_after }
            }
            (status, _) => Self::Failure { message: format!("the URL answered {status}") },
        }
    }
}

/// Whole seconds, at least one and at most [`Answer::LONGEST`].
fn seconds(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // A number that is too large for u64 is a long time, too.
    let seconds = digits.then(|| text.parse().unwrap_or(u64::MAX))?;
    (seconds > 0).then(|| Duration::from_secs(seconds).min(Answer::LONGEST))
}

fn first_of(texts: impl IntoIterator<Item = String>) -> String {
    texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn accept(message: &str) -> Verdict {
        Verdict::Accept { message: message.into() }
    }

    fn delay(seconds: u64, message: &str) -> Verdict {
        Verdict::Delay { time: Duration::from_secs(seconds), message: message.into() }
    }

    fn refuse(message: &str, retry: Option<u64>) -> Verdict {
        Verdict::Refuse { message: message.into(), retry_after: retry.map(Duration::from_secs) }
    }

    fn failure(message: &str) -> Verdict {
        Verdict::Failure { message: message.into() }
    }

    #[test]
    fn a_verdict_reads_as_one_phrase() {
        for (verdict, expected) in [
            (accept(""), "done"),
            (delay(90, "3 jobs left"), "not yet, for 1m 30s: 3 jobs left"),
            (refuse("a backup runs", Some(60)), "refused: a backup runs"),
            (
                failure("the URL answered 500 Internal Server Error"),
                "failed: the URL answered 500 Internal Server Error",
            ),
        ] {
            assert_eq!(verdict.to_string(), expected);
        }
    }

    #[test]
    fn an_exit_code_and_the_output_are_an_answer() {
        for (code, stdout, stderr, expected) in [
            (0, "flushed\ndone\n\n", "noise", accept("done")),
            (0, "", "", accept("")),
            (75, "working\n120\n", "copying\n", delay(120, "copying")),
            (75, "", "", delay(30, "")),
            (75, "soon", "", delay(30, "")),
            (75, "0", "", delay(30, "")),
            (75, "-5", "", delay(30, "")),
            (75, "2592001", "", delay(2_592_000, "")),
            (75, "99999999999999999999999", "", delay(2_592_000, "")),
            (75, "\u{1b}[1m120\u{1b}[0m\n", "50 %\rcopying\r\n", delay(120, "copying")),
            (1, "out", "first\na backup runs\n", refuse("a backup runs", None)),
            (1, "", "\u{1b}[31ma backup runs\u{1b}[0m\n", refuse("a backup runs", None)),
            (2, "a backup runs\n", " \n", refuse("a backup runs", None)),
            (125, "", "", refuse("exit code 125", None)),
            (126, "", "permission denied", failure("permission denied")),
            (127, "", "sh: x: not found\n", failure("sh: x: not found")),
            (137, "", "", failure("the command ended with exit status: 137")),
        ] {
            let status = ExitStatus::from_raw(code << 8);
            assert_eq!(Verdict::of_exit(status, stdout, stderr), expected, "{code} {stdout:?}");
        }
        let killed = ExitStatus::from_raw(9);
        assert!(matches!(Verdict::of_exit(killed, "done", ""), Verdict::Failure { .. }));
    }

    #[test]
    fn a_status_code_and_the_body_are_an_answer() {
        for (code, retry, body, expected) in [
            (200, None, "drained\n", accept("drained")),
            (204, Some("9"), "", accept("")),
            (202, Some("9"), "3 jobs left", delay(9, "3 jobs left")),
            (202, None, "", delay(30, "")),
            (503, Some("60"), "", delay(60, "")),
            (429, Some("60"), "", delay(60, "")),
            (503, Some("Fri, 27 Nov 2026 12:18:27 GMT"), "3 jobs left", delay(30, "3 jobs left")),
            (429, Some("0"), "", delay(30, "")),
            (503, Some("1.5"), "", delay(30, "")),
            (503, Some(""), "", delay(30, "")),
            (429, None, "", failure("the URL answered 429 Too Many Requests")),
            (409, Some("Fri, 27 Nov 2026 12:18:27 GMT"), "busy", refuse("busy", Some(30))),
            (503, None, "", failure("the URL answered 503 Service Unavailable")),
            (409, None, "a backup runs", refuse("a backup runs", None)),
            (409, Some("60"), "", refuse("409 Conflict", Some(60))),
            (302, None, "", failure("the URL answered 302 Found")),
            (404, None, "x", failure("the URL answered 404 Not Found")),
            (500, None, "x", failure("the URL answered 500 Internal Server Error")),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(retry) = retry {
                headers.insert(RETRY_AFTER, retry.parse().unwrap());
            }
            let status = StatusCode::from_u16(code).unwrap();
            assert_eq!(Verdict::of_reply(status, &headers, body), expected, "{code} {retry:?}");
        }
    }
}
