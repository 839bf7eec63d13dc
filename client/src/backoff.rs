//! Pauses between tries.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use kube::runtime::utils::Backoff;

/// Pauses of 0.1 s, growing to 5 s, with jitter. The app's time to answer runs: the pauses stay short.
pub(crate) struct Retry(ExponentialBackoff);

fn build() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(100))
        // The jitter adds up to as much again.
        .with_max_delay(Duration::from_millis(2500))
        .with_jitter()
        .without_max_times()
        .build()
}

/// Number of retries of a write that conflicts with another writer's.
const TURNS: usize = 10;

/// Pauses after conflicts: 50 ms, growing to 1 s. The jitter keeps two writers from meeting again.
pub(crate) fn turns() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(50))
        .with_max_delay(Duration::from_millis(500))
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
