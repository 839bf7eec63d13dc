//! Entrances for a fuzzer: private parsers of what users write. No part of the API.

#![allow(clippy::missing_panics_doc, clippy::panic, reason = "a property that does not hold is a panic")]

use chrono::{SecondsFormat, Timelike};

use crate::rule;

/// Reads the time in the notice of a node. Its RFC 3339 text is the same time.
pub fn notice_time(text: &str) {
    let Some(time) = rule::parse_notice_time(text) else { return };
    if time.nanosecond() < 1_000_000_000 && (0..=9999).contains(&chrono::Datelike::year(&time)) {
        let written = time.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        assert_eq!(rule::parse_notice_time(&written), Some(time), "{text:?} as {written:?}");
    }
}
