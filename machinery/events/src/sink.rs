//! The sink that takes notices and never waits.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use k8s_openapi::api::core::v1::ObjectReference;
use prometheus_client::metrics::counter::Counter;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use tracing::{info, warn};

use super::{
    Notice,
    backlog::{Backlog, HOLD},
    record::Record,
};

/// Takes notices and never waits. Clones share the backlog.
#[derive(Clone, Debug, Default)]
pub struct EventSink(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    backlog: Mutex<Backlog>,
    added: Notify,
    /// True while records are dropped: only the first of many is logged.
    dropping: AtomicBool,
    /// Number of records that were dropped.
    dropped: Counter,
}

impl EventSink {
    /// Returns a sink that counts the records that it drops.
    pub fn counting(dropped: Counter) -> Self {
        Self(Arc::new(Shared { dropped, ..Shared::default() }))
    }

    /// Returns the counter of the records that were dropped.
    pub fn dropped(&self) -> Counter {
        self.0.dropped.clone()
    }

    /// Publishes a notice on an object, which can name another one that it is about.
    pub fn send(&self, regarding: ObjectReference, related: Option<ObjectReference>, notice: Notice) {
        self.add(Record::new(notice, regarding, related));
    }

    fn add(&self, record: Record) {
        let dropped = !self.backlog().add(record, Instant::now());
        if dropped {
            self.0.dropped.inc();
        }
        if self.0.dropping.swap(dropped, Ordering::Relaxed) != dropped {
            if dropped {
                warn!("the backlog of events is full, dropping progress first");
            } else {
                info!("the backlog of events has room again");
            }
        }
        self.0.added.notify_one();
    }

    /// Takes the record that comes first, without waiting.
    pub(super) fn take_now(&self) -> Option<Record> {
        self.backlog().take(Instant::now() + HOLD).ok()
    }

    /// Waits for the record that comes first, and takes it.
    pub(super) async fn next(&self) -> Record {
        loop {
            let taken = self.backlog().take(Instant::now());
            match taken {
                Ok(record) => return record,
                Err(Some(ready)) => sleep_until(ready).await,
                Err(None) => self.0.added.notified().await,
            }
        }
    }

    /// Returns the backlog, which is consistent after each change: a panic of another holder does no harm.
    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.0.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
