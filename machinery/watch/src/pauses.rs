//! Pauses before a watch that broke is begun again.

use std::time::Duration;

use kube::runtime::utils::Backoff;
use tokio::time::Instant;

use crate::backoff;

/// The shortest and the longest pause. Short, so that objects written right after an outage are seen.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// Time without a failure after which the pauses begin anew.
const WORKED: Duration = Duration::from_secs(10);

/// Pauses that grow while each list fails.
///
/// kube's own backoff begins anew with each event. The beginning of a list is an event, too, and comes before
/// the API is asked: while each list fails, kube's pauses do not grow.
#[derive(Debug, Default)]
pub struct Pauses {
    failures: u32,
    last: Option<Instant>,
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let worked = self.last.replace(now).is_none_or(|last| now >= last + WORKED);
        self.failures = if worked { 1 } else { self.failures.saturating_add(1) };
        Some(backoff(PAUSE.0, PAUSE.1, self.failures))
    }
}

impl Backoff for Pauses {
    /// Does nothing: kube calls it for the beginning of a list, too.
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_while_each_list_fails_and_are_short_after_the_watch_worked() {
        let mut pauses = Pauses::default();
        let mut last = Duration::ZERO;
        for _ in 0..10 {
            last = pauses.next().unwrap();
            tokio::time::advance(last).await;
            // The beginning of the next list.
            pauses.reset();
        }
        assert!(last > PAUSE.1 / 2, "{last:?}");
        tokio::time::advance(WORKED).await;
        assert!(pauses.next().unwrap() <= PAUSE.0);
    }
}
