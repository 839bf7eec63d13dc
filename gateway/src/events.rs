//! Events on pods about calls that passed.
//!
//! [`EventSink`] never waits. One task publishes the Events in turn; those that find the queue full are
//! counted and dropped.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use prometheus_client::metrics::counter::Counter;
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    time::timeout,
};
use tracing::warn;

/// Maximum number of Events that wait.
const QUEUE: usize = 512;
/// Maximum time of one publication.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of a note, in bytes, that the API accepts.
const MAX_NOTE: usize = 1024;
/// Name of the reporting component.
const COMPONENT: &str = "evacuation-gateway";

/// An Event that waits.
struct Notice {
    pod: ObjectReference,
    event: Event,
}

/// Takes Events and never waits.
#[derive(Clone)]
pub(crate) struct EventSink {
    queue: Sender<Notice>,
    dropped: Counter,
}

impl EventSink {
    /// Returns a sink, and the queue for [`publish`].
    pub(crate) fn new(dropped: Counter) -> (Self, EventQueue) {
        let (queue, waiting) = channel(QUEUE);
        (Self { queue, dropped }, EventQueue(waiting))
    }

    /// Emits a warning on a pod. The note must not hold times, so that equal Events are one series.
    pub(crate) fn warn(&self, pod: &Pod, reason: &str, action: &str, note: String) {
        let mut note = note;
        note.truncate(note.floor_char_boundary(MAX_NOTE));
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        if self.queue.try_send(Notice { pod: pod.object_ref(&()), event }).is_err() {
            self.dropped.inc();
        }
    }
}

/// The Events that wait to be published.
pub(crate) struct EventQueue(Receiver<Notice>);

/// Publishes the Events until every sink is dropped.
pub(crate) async fn publish(client: Client, mut queue: EventQueue) {
    let instance = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let recorder = Recorder::new(client, Reporter { controller: COMPONENT.to_owned(), instance });
    while let Some(Notice { pod, event }) = queue.0.recv().await {
        let name = format!(
            "{}/{}",
            pod.namespace.as_deref().unwrap_or_default(),
            pod.name.as_deref().unwrap_or_default()
        );
        match timeout(TIMEOUT, recorder.publish(&event, &pod)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "event {} on pod {name} not published", event.reason
                );
            }
            Err(_) => warn!("event {} on pod {name} not published in time", event.reason),
        }
    }
}
