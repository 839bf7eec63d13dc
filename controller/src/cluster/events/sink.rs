//! The sink that takes notices and never waits.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use evacuation_api::Evacuation;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::Resource;
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
use crate::cluster::lock;

/// Takes notices and never waits. Clones share the backlog.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventSink(Arc<Shared>);

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
    /// Returns the counter of the records that were dropped.
    pub(crate) fn dropped(&self) -> Counter {
        self.0.dropped.clone()
    }

    /// Publishes a notice on an Evacuation, and on its pod unless it is progress.
    pub(crate) fn send(&self, evacuation: &Evacuation, notice: Notice) {
        let reference = evacuation.object_ref(&());
        let target = &evacuation.spec.target.pod;
        let pod = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: evacuation.metadata.namespace.clone(),
            name: Some(target.name.clone()),
            uid: target.uid.clone(),
            ..ObjectReference::default()
        };
        if !notice.progress {
            self.add(Record::new(notice.clone(), pod.clone(), Some(reference.clone())));
        }
        self.add(Record::new(notice, reference, Some(pod)));
    }

    /// Publishes a notice on a pod without an Evacuation.
    pub(crate) fn send_about_pod(&self, pod: &Pod, notice: Notice) {
        self.add(Record::new(notice, pod.object_ref(&()), None));
    }

    /// Publishes a notice on an object without an Evacuation.
    pub(crate) fn send_about(&self, object: ObjectReference, notice: Notice) {
        self.add(Record::new(notice, object, None));
    }

    fn add(&self, record: Record) {
        let dropped = !lock(&self.0.backlog).add(record, Instant::now());
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
        lock(&self.0.backlog).take(Instant::now() + HOLD).ok()
    }

    /// Waits for the record that comes first, and takes it.
    pub(super) async fn next(&self) -> Record {
        loop {
            let taken = lock(&self.0.backlog).take(Instant::now());
            match taken {
                Ok(record) => return record,
                Err(Some(ready)) => sleep_until(ready).await,
                Err(None) => self.0.added.notified().await,
            }
        }
    }
}
