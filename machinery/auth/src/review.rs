//! Reviews by kube-apiserver: retries, a time limit and a cache.

use std::{hash::Hash, time::Duration};

use backon::{ExponentialBuilder, Retryable};
use moka::future::Cache;
use tokio::time::Instant;

use crate::{AuthError, error::with_causes};

/// Maximum time of a review, retries included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the answers that are kept, in bytes, about.
const CAPACITY: u64 = 16 * 1024 * 1024;
/// Size of an answer without what it and its question hold.
const OVERHEAD: usize = 512;
/// Time for which an unused answer stays in memory. It exceeds the time for which any answer is valid.
const MEMORY: Duration = Duration::from_mins(1);

/// Calls kube-apiserver up to 5 times within 10 s. The first retry follows after 0.5 s, each further one
/// after half as much more (upstream's `DefaultAuthWebhookRetryBackoff`), or after the time that the server
/// asked for.
///
/// `call` is named in errors, such as `the TokenReview`.
pub(crate) async fn ask<T, F>(call: &'static str, request: impl FnMut() -> F) -> Result<T, AuthError>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let backoff = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(500))
        .with_factor(1.5)
        .with_jitter()
        .with_max_times(4);
    let asked = request
        .retry(backoff)
        .when(is_transient)
        .adjust(|error, delay| delay.map(|delay| delay.max(retry_after(error))))
        .notify(|error, delay| {
            tracing::warn!(error = with_causes(error), ?delay, "{call} failed and will be tried again");
        });
    match tokio::time::timeout(TIMEOUT, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(AuthError::unavailable(call, error)),
        Err(elapsed) => Err(AuthError::unavailable(call, elapsed)),
    }
}

/// Returns true when the same call may succeed a moment later: the connection failed, or the server reported
/// a fault of its own. Reviews change nothing, so that repeating one is harmless.
fn is_transient(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            matches!(status.code, 429 | 500 | 502 | 503 | 504) || !retry_after(error).is_zero()
        }
        kube::Error::HyperError(_) | kube::Error::Service(_) => true,
        _ => false,
    }
}

fn retry_after(error: &kube::Error) -> Duration {
    match error {
        kube::Error::Api(status) => {
            let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
            Duration::from_secs(seconds.into())
        }
        _ => Duration::ZERO,
    }
}

/// Cache of answers with a limited validity.
///
/// # Guarantees
///
/// Callers with the same question at the same time share one call and its outcome. Failures are shared in
/// this way but not kept. The answers kept have a bounded size. Answers in frequent use outlive others, so
/// that a flood of questions does not evict them. Nothing leaves memory.
pub(crate) struct AnswerCache<K, V> {
    answers: Cache<K, Answer<V>>,
}

#[derive(Clone)]
struct Answer<V> {
    outcome: Result<V, AuthError>,
    /// Tokio's clock and not the cache's, so that tests can control it.
    good_until: Instant,
}

impl<K: Hash + Eq + Send + Sync + 'static, V: Clone + Send + Sync + 'static> AnswerCache<K, V> {
    /// An empty cache; `size` tells how many bytes a question and its answer hold.
    pub(crate) fn new(size: fn(&K, &Result<V, AuthError>) -> usize) -> Self {
        let weigh = move |question: &K, answer: &Answer<V>| {
            u32::try_from(size(question, &answer.outcome).saturating_add(OVERHEAD)).unwrap_or(u32::MAX)
        };
        Self { answers: Cache::builder().max_capacity(CAPACITY).weigher(weigh).time_to_live(MEMORY).build() }
    }

    /// Returns the kept answer to a question, or that of `ask`, which is kept for as long as `keep` says.
    pub(crate) async fn get(
        &self,
        question: K,
        ask: impl Future<Output = Result<V, AuthError>>,
        keep: impl FnOnce(&V) -> Duration,
    ) -> Result<V, AuthError> {
        let answer = async {
            let outcome = ask.await;
            let good_for = outcome.as_ref().map_or(Duration::ZERO, keep);
            Answer { outcome, good_until: Instant::now() + good_for }
        };
        let stale = |answer: &Answer<V>| answer.good_until <= Instant::now();
        let entry = self.answers.entry(question).or_insert_with_if(answer, stale).await;
        entry.into_value().outcome
    }
}
