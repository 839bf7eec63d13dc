//! Entrances for a fuzzer: private parsers of what the app says. No part of the API.

#![allow(clippy::missing_panics_doc, clippy::panic, reason = "a property that does not hold is a panic")]

use std::{os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

use evacuation_client::Answer;
use http::{HeaderMap, HeaderValue, StatusCode, header::RETRY_AFTER};

use crate::{plain::MAX_MESSAGE, verdict::Verdict};

/// Reads the reply of a local URL. The API takes its times and its message.
pub fn reply(code: u16, retry_after: &[u8], body: &str) {
    let Ok(status) = StatusCode::from_u16(code) else { return };
    let retry_after = HeaderValue::from_bytes(retry_after).ok();
    let headers: HeaderMap = retry_after.map(|value| (RETRY_AFTER, value)).into_iter().collect();
    check(&Verdict::of_reply(status, &headers, body));
}

/// Reads the exit status and the output of a command. The API takes its times and its message.
pub fn exit(status: i32, stdout: &str, stderr: &str) {
    check(&Verdict::of_exit(ExitStatus::from_raw(status), stdout, stderr));
}

fn check(verdict: &Verdict) {
    let in_range = |time: Duration| (Duration::from_secs(1)..=Answer::LONGEST).contains(&time);
    let message = match verdict {
        Verdict::Accept { message } | Verdict::Failure { message } => message,
        Verdict::Delay { time, message } => {
            assert!(in_range(*time), "{verdict:?}");
            message
        }
        Verdict::Refuse { message, retry_after } => {
            assert!(retry_after.is_none_or(in_range), "{verdict:?}");
            message
        }
    };
    assert!(message.len() <= MAX_MESSAGE, "{verdict:?}");
    assert!(!message.contains(|c: char| c.is_control() && c != '\t'), "{verdict:?}");
    assert!(!verdict.to_string().is_empty());
}
