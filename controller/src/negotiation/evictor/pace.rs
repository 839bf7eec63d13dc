//! The number of evictions of one budget under way at once, which follows how long the calls take.

use std::time::Duration;

use tokio::time::Instant;

/// Number at the start.
const FIRST: f64 = 4.0;
/// Maximum number. More make the drain slower, not faster: they collide more often.
const MOST: f64 = 8.0;
/// Duration of a call from which on evictions are in each other's way. The kube-apiserver sleeps 0.5 s
/// whenever two writes of a budget's status collide, up to 20 times, also after the request's timeout.
pub(super) const SLOW: Duration = Duration::from_secs(2);

/// The number of evictions of one budget under way at once.
///
/// Each call that is quick lets a little more go, and calls that are slow halve it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    width: f64,
    slowed: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { width: FIRST, slowed: None }
    }
}

impl Pace {
    /// Returns the number of evictions that may be under way.
    pub(super) fn width(&self) -> usize {
        // Within 1..=MOST: no cast can go wrong.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let width = self.width as usize;
        width
    }

    /// Takes in the duration of a call that ends now.
    pub(super) fn took(&mut self, call: Duration, now: Instant) {
        if call < SLOW {
            self.width = (self.width + 1.0 / self.width).min(MOST);
            return;
        }
        // Calls that were under way together are slow together, and count once.
        if self.slowed.is_none_or(|since| now.duration_since(since) >= call) {
            self.width = (self.width / 2.0).max(1.0);
            self.slowed = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(600);

    #[tokio::test(start_paused = true)]
    async fn quick_calls_let_more_go_up_to_a_maximum() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        assert_eq!(pace.width(), 4);
        let widths: Vec<usize> = (0..100)
            .map(|_| {
                pace.took(QUICK, now);
                pace.width()
            })
            .collect();
        assert!(widths.is_sorted() && widths[3] == 4 && widths[5] == 5, "{widths:?}");
        assert_eq!(pace.width(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_are_slow_together_halve_it_once_and_never_below_one() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for _ in 0..4 {
            pace.took(SLOW, now);
        }
        assert_eq!(pace.width(), 2);
        for _ in 0..4 {
            now += SLOW;
            pace.took(SLOW, now);
        }
        assert_eq!(pace.width(), 1);
        pace.took(QUICK, now);
        assert_eq!(pace.width(), 2);
    }
}
