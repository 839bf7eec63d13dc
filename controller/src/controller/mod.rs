//! What the parts of the controller share.

mod fed;
mod term;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use chrono::{DateTime, Utc};
use evacuation_api::Evacuation;
use evacuation_protocol::phase;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

pub(crate) use fed::{Fed, budget_status};

use crate::{
    Leadership, ObjectKey,
    clock::ServerClock,
    events::{EventSink, Notice},
    evictor::{Attempts, Evictor, Sightings, Turns},
    index::{Index, Update},
    metrics::{Metrics, Probed, Seen},
    push::{Deliveries, Pusher},
    queue::WorkQueue,
    reachability::Reachability,
    refresh::Refresher,
    responders::Responders,
    watch::{CLOCK, WATCHED, WATCHED_TO_REFRESH},
};

/// What the parts of the controller share: what is known, what is to be done, and who may do it.
pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) leadership: Leadership,
    pub(crate) index: Mutex<Index>,
    pub(crate) queue: WorkQueue<ObjectKey>,
    pub(crate) turns: Mutex<Turns>,
    pub(crate) attempts: Attempts,
    pub(crate) sightings: Sightings,
    pub(crate) evictor: Evictor,
    pub(crate) deliveries: Deliveries,
    pub(crate) pusher: Pusher,
    pub(crate) reachability: Reachability,
    /// `None` when no pods are refreshed.
    pub(crate) refresher: Option<Refresher>,
    pub(crate) clock: ServerClock,
    pub(crate) responders: Responders,
    pub(crate) metrics: Metrics,
    /// How often in a row the work on an Evacuation failed.
    pub(crate) failures: Mutex<HashMap<ObjectKey, u32>>,
    events: EventSink,
    synced: watch::Sender<BTreeSet<&'static str>>,
    term: Mutex<CancellationToken>,
}

impl Controller {
    pub(crate) fn new(client: Client, leadership: Leadership, pusher: Pusher, events: EventSink) -> Self {
        Self {
            client,
            leadership,
            index: Mutex::default(),
            queue: WorkQueue::default(),
            turns: Mutex::default(),
            attempts: Attempts::default(),
            sightings: Sightings::default(),
            evictor: Evictor::default(),
            deliveries: Deliveries::default(),
            pusher,
            reachability: Reachability::new(Instant::now()),
            clock: ServerClock::default(),
            refresher: None,
            responders: Responders::default(),
            metrics: Metrics::default(),
            failures: Mutex::default(),
            events,
            synced: watch::channel(BTreeSet::new()).0,
            term: Mutex::default(),
        }
    }

    /// The same with the requester that refreshes pods.
    pub(crate) fn with_refresher(self, refresher: Option<Refresher>) -> Self {
        Self { refresher, ..self }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn evacuations(&self, namespace: &str) -> Api<Evacuation> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Takes in the state of an object.
    pub(crate) fn apply<K: Fed>(&self, object: K) {
        let update = lock(&self.index).apply(object);
        self.follow(&update);
    }

    /// Takes in the removal of an object.
    pub(crate) fn delete<K: Fed>(&self, object: &K) {
        let update = lock(&self.index).delete(object);
        self.follow(&update);
    }

    /// Takes in that the object of that key is gone.
    pub(crate) fn remove<K: Fed>(&self, key: &ObjectKey) {
        let update = lock(&self.index).remove::<K>(key);
        self.follow(&update);
    }

    /// Takes in a whole list.
    pub(crate) fn reset<K: Fed>(&self, objects: Vec<K>) {
        let update = lock(&self.index).reset(objects);
        self.follow(&update);
    }

    fn follow<K: Fed>(&self, update: &Update<K>) {
        K::fed(self, update);
        self.wake(update.touched.iter().cloned());
    }

    /// Has Evacuations reconsidered at once.
    pub(crate) fn wake(&self, keys: impl IntoIterator<Item = ObjectKey>) {
        for key in keys {
            self.queue.add(key);
        }
    }

    /// Has an Event published.
    pub(crate) fn notify(&self, evacuation: &Evacuation, notice: Notice) {
        if !self.events.send(evacuation, notice) {
            self.metrics.events_dropped.inc();
        }
    }

    /// Has an Event published on a pod that no Evacuation is about.
    pub(crate) fn notify_pod(&self, pod: &Pod, notice: Notice) {
        if !self.events.send_about_pod(pod, notice) {
            self.metrics.events_dropped.inc();
        }
    }

    /// Has every namespace looked at for pods to refresh.
    fn wake_refreshes(&self) {
        if let Some(refresher) = &self.refresher {
            for namespace in lock(&self.index).namespace_names() {
                refresher.wake(namespace.to_owned());
            }
        }
    }

    /// Records that a kind was listed, or the time is known.
    pub(crate) fn set_synced(&self, name: &'static str) {
        self.synced.send_if_modified(|synced| synced.insert(name));
    }

    /// Waits until every kind was listed and the time is known.
    pub(crate) async fn synced(&self) {
        self.listed(&WATCHED).await;
        self.listed(&[CLOCK]).await;
    }

    /// Waits until every kind was listed that is needed to refresh pods. Nobody else waits for them: without the rights to see
    /// namespaces and ReplicaSets everything else goes on.
    pub(crate) async fn synced_to_refresh(&self) {
        self.listed(&WATCHED_TO_REFRESH).await;
    }

    async fn listed(&self, names: &[&'static str]) {
        // The sender lives as long as the controller.
        let _ =
            self.synced.subscribe().wait_for(|synced| names.iter().all(|name| synced.contains(name))).await;
    }

    /// Takes in that the API answered at `received` a request that was sent at `sent`, and what time it is there, if it said so.
    pub(crate) fn api_answered(&self, time: Option<DateTime<Utc>>, sent: Instant, received: Instant) {
        if time.is_some_and(|time| self.clock.set(time, sent, received)) {
            info!(now = %self.clock.now(), "the API server's clock shows another time");
            self.wake_all();
        }
        if self.reachability.succeeded(received) {
            info!("the API is back: nothing lapses for a while");
            #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^52")]
            self.metrics.recovered.set(self.clock.now().timestamp() as f64);
            self.wake_all();
        }
        if time.is_some() {
            self.set_synced(CLOCK);
        }
    }

    fn wake_all(&self) {
        let keys: Vec<ObjectKey> = lock(&self.index).evacuations().map(|(key, _)| key.clone()).collect();
        self.wake(keys);
        self.wake_for_all();
    }
}

impl Probed for Controller {
    fn metrics(&self) -> String {
        let mut phases: BTreeMap<&'static str, i64> = BTreeMap::new();
        for (_, evacuation) in lock(&self.index).evacuations() {
            *phases.entry(phase(evacuation).as_str()).or_default() += 1;
        }
        let queues = [
            ("ready", self.queue.ready()),
            ("scheduled", self.queue.scheduled()),
            ("budget", lock(&self.turns).waiting()),
        ];
        self.metrics.text(&Seen { phases, queues: queues.into() })
    }

    fn not_ready(&self) -> Vec<&'static str> {
        let synced = self.synced.borrow();
        WATCHED.into_iter().chain([CLOCK]).filter(|name| !synced.contains(name)).collect()
    }
}

/// Locks what never stays inconsistent: a panic of another holder is its own affair.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
