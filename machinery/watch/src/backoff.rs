//! Pauses between attempts.

use std::time::Duration;

/// Returns the pause after that number of failures in a row, the first being 1. It is `first`, doubled with
/// each failure up to `longest`, less up to a quarter at random. So callers that failed together do not come
/// back together.
pub fn backoff(first: Duration, longest: Duration, failures: u32) -> Duration {
    let factor = 2_u32.saturating_pow(failures.saturating_sub(1).min(16));
    first.saturating_mul(factor).min(longest).mul_f64(rand::random_range(0.75..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        for (failures, whole) in [(0, 1), (1, 1), (2, 2), (3, 4), (5, 16), (6, 20), (1000, 20)] {
            let pause = backoff(Duration::from_secs(1), Duration::from_secs(20), failures).as_secs_f64();
            let whole = f64::from(whole);
            assert!((whole * 0.75..=whole).contains(&pause), "{failures}: {pause}");
        }
    }
}
