//! The work on one pod: see, decide, act, until there is nothing left to do.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use chrono::{DateTime, Utc};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{part::sooner, reply::Reply};
use crate::{
    ObjectKey,
    backoff::backoff,
    clock::due,
    controller::{Controller, lock},
    error::CallError,
    lease::LEASE_PAUSE,
    queue::WorkQueue,
};

/// How many pods are worked on at once.
const WORKERS: usize = 8;
/// How many rounds one turn of a worker has at most; then others come first.
const ROUNDS: usize = 8;
/// The shortest and the longest pause after a failure.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// Which pods the built-in responders are to look at.
#[derive(Debug, Default)]
pub(crate) struct Responders {
    /// The pods, by name.
    pub(super) queue: WorkQueue<ObjectKey>,
    /// How often in a row the work on a pod failed.
    failures: Mutex<HashMap<ObjectKey, u32>>,
    /// What was said last to each Evacuation, by its UID, with the resourceVersion to which it was said. It spares posts, no more.
    pub(super) said: Mutex<HashMap<String, (String, Reply)>>,
}

/// What a round led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    /// The pod changed: look again.
    Again,
    /// Nothing is left to do before that time.
    Rest(Option<DateTime<Utc>>),
}

impl Round {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Rest(a), Self::Rest(b)) => Self::Rest(sooner(a, b)),
            _ => Self::Again,
        }
    }
}

impl Controller {
    /// Starts the workers of the built-in responders, which take up nothing new after `stop`.
    pub(crate) fn spawn_responders(self: &Arc<Self>, workers: &mut JoinSet<()>, stop: &CancellationToken) {
        for _ in 0..WORKERS {
            let (controller, stop) = (Arc::clone(self), stop.clone());
            workers.spawn(async move {
                loop {
                    let pod = tokio::select! {
                        biased;
                        () = stop.cancelled() => return,
                        pod = controller.responders.queue.next() => pod,
                    };
                    let _done = Done { responders: &controller.responders, pod: &pod };
                    controller.respond(&pod).await;
                }
            });
        }
    }

    /// Plays both responders for a pod until nothing is left to do, and schedules when to look again.
    async fn respond(&self, pod: &ObjectKey) {
        if self.reachability.is_out(std::time::Instant::now()) || self.leadership.check().is_err() {
            self.responders.queue.add_at(pod.clone(), Instant::now() + LEASE_PAUSE);
            return;
        }
        for _ in 0..ROUNDS {
            // One that fails does not keep the other from its work.
            let (surge, gate) = (self.surge(pod).await, self.gate(pod).await);
            match surge.and_then(|surge| gate.map(|gate| surge.and(gate))) {
                Ok(Round::Again) => {}
                Ok(Round::Rest(time)) => {
                    lock(&self.responders.failures).remove(pod);
                    match time {
                        Some(time) => self.responders.queue.add_at(pod.clone(), due(time, self.clock.now())),
                        None => self.responders.queue.unschedule(pod),
                    }
                    return;
                }
                Err(error) => return self.responding_failed(pod, &error),
            }
        }
        self.responders.queue.add(pod.clone());
    }

    fn responding_failed(&self, pod: &ObjectKey, error: &CallError) {
        let failures = {
            let mut failures = lock(&self.responders.failures);
            let count = failures.entry(pod.clone()).or_default();
            *count = count.saturating_add(1);
            *count
        };
        self.metrics.failures.inc();
        let pause = error.retry_after().unwrap_or_else(|| backoff(PAUSE.0, PAUSE.1, failures));
        // That something changed or went meanwhile is the way of things.
        if !matches!(error.code(), 404 | 409) {
            warn!(error = error as &dyn std::error::Error, pod = %pod, "a built-in responder failed");
        }
        self.responders.queue.add_at(pod.clone(), Instant::now() + pause);
    }
}

/// Says that the work on a pod is done, also when the worker is aborted.
struct Done<'a> {
    responders: &'a Responders,
    pod: &'a ObjectKey,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.responders.queue.done(self.pod);
    }
}
