use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

/// Interval of [`eventually`]: short against the times waited for, long against a request's cost.
const INTERVAL: Duration = Duration::from_millis(50);

/// A condition that did not come true in time, and what was seen last.
#[derive(Debug, Clone, thiserror::Error)]
#[error("not within {after:?}: {what}; last seen: {last}")]
pub struct TimedOut {
    /// The condition.
    pub what: String,
    /// For how long.
    pub after: Duration,
    /// State that the last finished probe saw.
    pub last: String,
}

/// Calls `probe` until it returns `Ok`, every 50 ms, for at most `timeout`.
///
/// The probe's `Err` says what it saw instead: the last one is in the error at the time-out. A probe
/// that does not return is cut off at the time-out.
///
/// # Errors
///
/// [`TimedOut`] with `what` and the state seen last.
pub async fn eventually<T, E, F, Fut>(timeout: Duration, what: &str, mut probe: F) -> Result<T, TimedOut>
where
    E: Display,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let deadline = Instant::now() + timeout;
    let mut last = "nothing: the first look did not return".to_owned();
    loop {
        match timeout_at(deadline, probe()).await {
            Ok(Ok(value)) => return Ok(value),
            // The alternate form prints the whole chain of an `anyhow::Error`.
            Ok(Err(seen)) => last = format!("{seen:#}"),
            Err(_) => {}
        }
        if Instant::now() >= deadline {
            return Err(TimedOut { what: what.to_owned(), after: timeout, last });
        }
        sleep(INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_time_out_reports_the_state_seen_last() {
        let mut looks = 0;
        let error = eventually(Duration::from_secs(1), "the answer", || {
            looks += 1;
            let seen = format!("look {}", looks.min(3));
            async move { Err::<(), _>(seen) }
        })
        .await
        .unwrap_err();
        assert_eq!(error.to_string(), "not within 1s: the answer; last seen: look 3");
        assert!((20..=21).contains(&looks), "{looks} looks");
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_hangs_is_cut_off_at_the_time_out() {
        let error =
            eventually(Duration::from_secs(1), "the answer", std::future::pending::<Result<(), String>>)
                .await
                .unwrap_err();
        assert!(error.last.contains("did not return"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_value_of_the_first_success_is_returned() {
        let mut looks = 0;
        let value = eventually(Duration::from_secs(1), "three looks", || {
            looks += 1;
            let look = looks;
            async move { if look == 3 { Ok(look) } else { Err("too early") } }
        })
        .await
        .unwrap();
        assert_eq!(value, 3);
    }
}
