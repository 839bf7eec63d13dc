//! The worker loop of every feature: take a key, reconcile it, and schedule its next round.

use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{CLOCK, CallError, Cluster, Feature, ObjectKey, Requeue, lease::LEASE_PAUSE, lock};

/// Maximum number of rounds that one key has in a row. Then other keys come first.
const ROUNDS: usize = 16;
/// Time after which every key is reconciled again, although no event queued it.
const RESYNC_EVERY: Duration = Duration::from_mins(5);

/// A worker of one feature. Clones share the count of failures.
#[derive(Clone)]
pub(crate) struct Worker {
    feature: Arc<dyn Feature>,
    cluster: Cluster,
    /// Number of failures in a row, by key.
    failures: Arc<Mutex<HashMap<ObjectKey, u32>>>,
}

/// Starts the workers of a feature. They take no new key after `stop`.
pub(crate) fn spawn_workers(
    feature: &Arc<dyn Feature>,
    cluster: &Cluster,
    workers: &mut JoinSet<()>,
    stop: &CancellationToken,
) {
    let worker = Worker::new(Arc::clone(feature), cluster.clone());
    for _ in 0..feature.workers().count.max(1) {
        workers.spawn(worker.clone().run(stop.clone()));
    }
}

/// Starts the task that makes every feature queue its keys again and again until `stop`.
pub(crate) fn spawn_resync(cluster: &Cluster, workers: &mut JoinSet<()>, stop: &CancellationToken) {
    let (features, stop) = (Arc::clone(&cluster.features), stop.clone());
    workers.spawn(async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RESYNC_EVERY) => features.resync(),
            }
        }
    });
}

impl Worker {
    /// Returns a worker that has seen no failure yet.
    pub(crate) fn new(feature: Arc<dyn Feature>, cluster: Cluster) -> Self {
        Self { feature, cluster, failures: Arc::default() }
    }

    async fn run(self, stop: CancellationToken) {
        let watches: Vec<&str> =
            self.feature.watches().iter().map(|kind| kind.watch_name()).chain([CLOCK]).collect();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = self.cluster.readiness.wait(&watches) => {}
        }
        loop {
            let key = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                key = self.feature.queue().next() => key,
            };
            let working = self.feature.queue().working(&key);
            self.work(&key).await;
            drop(working);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.feature.rest()) => {}
            }
        }
    }

    /// Reconciles a key until nothing is left to do, and schedules its next round.
    pub(crate) async fn work(&self, key: &ObjectKey) {
        let queue = self.feature.queue();
        // Without a server that answers the workers would only wait for timeouts.
        let away = self.cluster.reachability().is_away(std::time::Instant::now());
        if away || self.cluster.leadership.check().is_err() {
            queue.add_at(key.clone(), Instant::now() + LEASE_PAUSE);
            return;
        }
        for _ in 0..ROUNDS {
            match self.feature.reconcile(key).await {
                Ok(next) => {
                    lock(&self.failures).remove(key);
                    match next {
                        Requeue::Now => continue,
                        Requeue::At(time) => queue.add_at(key.clone(), time),
                        Requeue::OnEvent => queue.unschedule(key),
                    }
                }
                Err(error) => self.failed(key, &error),
            }
            return;
        }
        queue.add(key.clone());
    }

    fn failed(&self, key: &ObjectKey, error: &CallError) {
        let failures = {
            let mut failures = lock(&self.failures);
            let count = failures.entry(key.clone()).or_default();
            *count = count.saturating_add(1);
            *count
        };
        self.cluster.metrics.failures.inc();
        let (first, longest) = self.feature.workers().pause;
        let pause = error.retry_after().unwrap_or_else(|| machinery_watch::backoff(first, longest, failures));
        if !self.feature.is_expected(error) {
            let feature = self.feature.name();
            warn!(error = error as &dyn Error, feature, key = %key, "reconciling failed, retrying in {pause:?}");
        }
        self.feature.queue().add_at(key.clone(), Instant::now() + pause);
    }
}

#[cfg(test)]
mod tests;
