//! How long to wait before the next try.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use kube::runtime::utils::Backoff;

/// 0.1 s, growing to 5 s, with jitter: an app must be back soon after the server is, for its time to answer runs.
pub(crate) struct Retry(ExponentialBackoff);

fn build() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(100))
        .with_max_delay(Duration::from_secs(5))
        .with_jitter()
        .without_max_times()
        .build()
}

/// How often a write is tried again that is lost only to another writer.
const TURNS: usize = 10;

/// The pauses between writes that others came before: 50 ms, growing to 1 s, with jitter, so that two writers do not meet again.
pub(crate) fn turns() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(50))
        .with_max_delay(Duration::from_secs(1))
        .with_max_times(TURNS)
        .with_jitter()
        .build()
}

impl Default for Retry {
    fn default() -> Self {
        Self(build())
    }
}

impl Iterator for Retry {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next()
    }
}

impl Backoff for Retry {
    fn reset(&mut self) {
        self.0 = build();
    }
}
