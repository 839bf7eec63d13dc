//! The narration, with times.

use std::time::Instant;

/// Tells what happens, each line with the seconds since the beginning.
pub(crate) struct Story {
    began: Instant,
}

impl Story {
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now() }
    }

    pub(crate) fn tell(&self, what: impl AsRef<str>) {
        let seconds = self.began.elapsed().as_secs_f64();
        for line in what.as_ref().lines() {
            println!("{seconds:6.1} s  {line}");
        }
    }
}
