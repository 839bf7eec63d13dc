//! The task that looks at one namespace after the other.

use std::{collections::HashMap, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    Refresher,
    decide::{Decision, step},
    seen::Seen,
};
use crate::{
    backoff::backoff,
    clock::due,
    controller::{Controller, lock},
};

/// The shortest and the longest pause after a failure, and after an outage was noticed.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// How many times as long as deciding took the task rests, so that a large namespace of which much changes costs little.
const REST: u32 = 4;

impl Controller {
    /// Looks at every namespace that something changed in, until `stop`.
    pub(crate) async fn refresh_pods(self: Arc<Self>, stop: CancellationToken) {
        let Some(refresher) = &self.refresher else {
            return;
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = self.synced_to_refresh() => {}
        }
        let mut failures: HashMap<String, u32> = HashMap::new();
        loop {
            let namespace = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                namespace = refresher.queue.next() => namespace,
            };
            let working = refresher.queue.working(&namespace);
            let began = Instant::now();
            let now = self.clock.now();
            if self.reachability.is_out(std::time::Instant::now()) || self.leadership.check().is_err() {
                refresher.queue.add_at(namespace.clone(), began + PAUSE.0);
                continue;
            }
            let decision = self.decide_refreshes(refresher, &namespace, now);
            let spent = began.elapsed();
            match self.act_on_refreshes(refresher, &namespace, &decision).await {
                Ok(()) => {
                    failures.remove(&namespace);
                    match decision.wake_at {
                        Some(time) => refresher.queue.add_at(namespace.clone(), due(time, now)),
                        None => refresher.queue.unschedule(&namespace),
                    }
                }
                Err(error) => {
                    let count = failures.entry(namespace.clone()).or_default();
                    *count = count.saturating_add(1);
                    let pause = error.retry_after().unwrap_or_else(|| backoff(PAUSE.0, PAUSE.1, *count));
                    self.metrics.failures.inc();
                    warn!(error = &error as &dyn std::error::Error, %namespace, "refreshing pods failed");
                    refresher.queue.add_at(namespace.clone(), Instant::now() + pause);
                }
            }
            drop(working);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(spent * REST) => {}
            }
        }
    }

    pub(super) fn decide_refreshes(
        &self,
        refresher: &Refresher,
        namespace: &str,
        now: DateTime<Utc>,
    ) -> Decision {
        let seen = Seen::of(&lock(&self.index), namespace, now);
        let decision = step(&seen, &refresher.limits, now);
        refresher.set_pending(namespace, decision.pending);
        decision
    }
}
