//! One term of acting: from getting the lease to giving it up.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Controller, lock};
use crate::evictor::Turns;

/// How often every Evacuation is reconsidered although nothing touched it.
const RESYNC_EVERY: Duration = Duration::from_mins(5);

impl Controller {
    /// Begins to act; `term` ends what is under way when this process may no longer.
    pub(crate) fn start_term(&self, term: CancellationToken) {
        *lock(&self.term) = term;
        self.metrics.leader.set(1);
        self.wake_all();
        self.wake_refreshes();
    }

    /// Forgets what only a leader knows.
    pub(crate) fn end_term(&self) {
        self.metrics.leader.set(0);
        self.attempts.clear();
        self.deliveries.clear();
        *lock(&self.turns) = Turns::default();
        if let Some(refresher) = &self.refresher {
            refresher.end_term();
        }
    }

    /// Ends when this process may no longer act.
    pub(crate) fn term(&self) -> CancellationToken {
        lock(&self.term).clone()
    }

    /// Starts workers, the requester that refreshes pods, and the resync, that take up nothing new after `stop`.
    pub(crate) fn spawn_workers(self: &Arc<Self>, count: usize, stop: &CancellationToken) -> JoinSet<()> {
        let mut workers = JoinSet::new();
        for _ in 0..count.max(1) {
            let (controller, stop) = (Arc::clone(self), stop.clone());
            workers.spawn(async move {
                loop {
                    let key = tokio::select! {
                        biased;
                        () = stop.cancelled() => return,
                        key = controller.queue.next() => key,
                    };
                    let _working = controller.queue.working(&key);
                    controller.work(&key).await;
                }
            });
        }
        workers.spawn(Arc::clone(self).refresh_pods(stop.clone()));
        let (controller, stop) = (Arc::clone(self), stop.clone());
        workers.spawn(async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(RESYNC_EVERY) => {
                        controller.wake_all();
                        controller.wake_refreshes();
                    }
                }
            }
        });
        workers
    }
}
