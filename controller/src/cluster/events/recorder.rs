//! Publishing Events without standing in the way of anything.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use evacuation_api::Evacuation;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use prometheus_client::metrics::counter::Counter;
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::Notice;
use crate::cluster::call;

/// The name under which Events are reported.
const REPORTER: &str = "evacuation-controller";
/// How many Events wait at most. What comes on top is dropped: Events tell, they decide nothing.
const WAITING: usize = 4096;
/// How long after its last Event a series ends, as in kube's recorder.
const SERIES_END: Duration = Duration::from_mins(6);
/// The longest note that the API takes, in bytes.
const MAX_NOTE: usize = 1024;

/// Takes Events and never waits. Clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct EventSink {
    sender: Sender<Waiting>,
    /// Whether the last Event was dropped: the first of many is warned of.
    dropping: Arc<AtomicBool>,
    /// Number of Events that were dropped.
    dropped: Counter,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    notice: Notice,
    /// Absent for what is told of a pod that no Evacuation is about.
    evacuation: Option<ObjectReference>,
    pod: ObjectReference,
}

impl EventSink {
    /// A sink and what it is emptied by.
    pub(crate) fn new() -> (Self, Receiver<Waiting>) {
        let (sender, receiver) = channel(WAITING);
        (Self { sender, dropping: Arc::default(), dropped: Counter::default() }, receiver)
    }

    /// Returns the counter of the Events that were dropped.
    pub(crate) fn dropped(&self) -> Counter {
        self.dropped.clone()
    }

    /// Has an Event published on an Evacuation and on its pod. False when it was dropped, because too many wait.
    pub(crate) fn send(&self, evacuation: &Evacuation, notice: Notice) -> bool {
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
        self.take(Waiting { notice, evacuation: Some(reference), pod })
    }

    /// Has an Event published on a pod that no Evacuation is about. False when it was dropped, because too many wait.
    pub(crate) fn send_about_pod(&self, pod: &Pod, notice: Notice) -> bool {
        self.take(Waiting { notice, evacuation: None, pod: pod.object_ref(&()) })
    }

    fn take(&self, waiting: Waiting) -> bool {
        let sent = self.sender.try_send(waiting);
        let dropped = sent.is_err();
        if dropped {
            self.dropped.inc();
        }
        if !self.dropping.swap(dropped, Ordering::Relaxed)
            && let Err(error) = sent
        {
            warn!(error = &error as &dyn std::error::Error, "events are dropped until fewer wait");
        }
        !dropped
    }
}

/// Publishes what a sink took, one after another, until `stop`.
pub(crate) async fn publish_events(
    client: Client,
    identity: String,
    mut waiting: Receiver<Waiting>,
    stop: CancellationToken,
) {
    let reporter = Reporter { controller: REPORTER.to_owned(), instance: Some(identity) };
    let mut series = Series::new(|| Recorder::new(client.clone(), reporter.clone()));
    loop {
        let next = tokio::select! {
            () = stop.cancelled() => return,
            next = waiting.recv() => next,
        };
        let Some(Waiting { notice, evacuation, pod }) = next else {
            return;
        };
        let on_evacuation = evacuation.as_ref().map(|evacuation| (evacuation, Some(&pod)));
        for (regarding, related) in on_evacuation.into_iter().chain([(&pod, evacuation.as_ref())]) {
            let event = Event {
                type_: if notice.warning { EventType::Warning } else { EventType::Normal },
                reason: notice.reason.to_owned(),
                note: Some(shortened(&notice.note)),
                action: "Evacuate".to_owned(),
                secondary: related.cloned(),
            };
            let name = regarding.name.as_deref().unwrap_or_default();
            let recorder = series.of(regarding, &notice, Instant::now());
            if let Err(error) =
                call(format!("publish an event on {name}"), recorder.publish(&event, regarding)).await
            {
                warn!(
                    error = &error as &dyn std::error::Error,
                    reason = notice.reason,
                    "an event was not published"
                );
            }
        }
    }
}

/// What the last Event of each reason on each object said.
///
/// A recorder counts Events of one reason on one object as a series that keeps the note of the first. Only what says the same is
/// one: another responder that was asked, or another time, is an Event of its own.
struct Series<R, F> {
    fresh: F,
    /// By the object's UID and the reason: the note, when it was said last, and the recorder that counts it.
    last: HashMap<(String, &'static str), (String, Instant, R)>,
}

impl<R, F: Fn() -> R> Series<R, F> {
    fn new(fresh: F) -> Self {
        Self { fresh, last: HashMap::new() }
    }

    /// The recorder that counts what a notice says, or a fresh one.
    fn of(&mut self, regarding: &ObjectReference, notice: &Notice, now: Instant) -> &R {
        self.last.retain(|_, (_, said, _)| now.duration_since(*said) < SERIES_END);
        let key = (regarding.uid.clone().unwrap_or_default(), notice.reason);
        let entry = self.last.entry(key);
        let (note, said, recorder) = entry.or_insert_with(|| (notice.note.clone(), now, (self.fresh)()));
        *said = now;
        if *note != notice.note {
            notice.note.clone_into(note);
            *recorder = (self.fresh)();
        }
        recorder
    }
}

fn shortened(note: &str) -> String {
    let mut end = note.len().min(MAX_NOTE);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    note.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_finds_no_room_is_dropped_and_the_next_that_does_is_not() {
        let evacuation =
            serde_json::from_value(serde_json::json!({"spec": {"target": {"pod": {"name": "p"}}}})).unwrap();
        let notice = || Notice { reason: "Asked", warning: false, note: String::new() };
        let (sink, mut waiting) = EventSink::new();
        for _ in 0..WAITING {
            assert!(sink.send(&evacuation, notice()));
        }
        assert!(!sink.send(&evacuation, notice()));
        assert_eq!(sink.dropped().get(), 1, "a metric counts it");
        waiting.try_recv().unwrap();
        assert!(sink.send(&evacuation, notice()));
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_counted_as_one_only_while_they_say_the_same() {
        let asked = |responder: &str| Notice {
            reason: "Asked",
            warning: false,
            note: format!("responder {responder} was asked"),
        };
        let pod = |uid: &str| ObjectReference { uid: Some(uid.to_owned()), ..ObjectReference::default() };
        let next = std::cell::Cell::new(0);
        let mut series = Series::new(|| {
            next.set(next.get() + 1);
            next.get()
        });
        let now = Instant::now();
        let table = [
            (pod("a"), asked("self"), now, 1),
            (pod("a"), asked("self"), now, 1),
            (pod("a"), asked("db.acme.io/failover"), now, 2),
            (pod("b"), asked("self"), now, 3),
            (pod("a"), asked("db.acme.io/failover"), now + SERIES_END, 4),
        ];
        for (step, (pod, notice, time, recorder)) in table.into_iter().enumerate() {
            assert_eq!(*series.of(&pod, &notice, time), recorder, "step {step}");
        }
    }

    #[test]
    fn a_note_is_cut_where_the_api_would_refuse_it() {
        assert_eq!(shortened("short"), "short");
        let long = "ü".repeat(600);
        assert_eq!(shortened(&long), "ü".repeat(512));
        assert_eq!(shortened(&format!("x{long}")).len(), 1023);
    }
}
