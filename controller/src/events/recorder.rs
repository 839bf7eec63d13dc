//! Publishing Events without standing in the way of anything.

use evacuation_api::Evacuation;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::Notice;
use crate::error::call;

/// The name under which Events are reported.
const REPORTER: &str = "evacuation-controller";
/// How many Events wait at most. What comes on top is dropped: Events tell, they decide nothing.
const WAITING: usize = 4096;
/// The longest note that the API takes, in bytes.
const MAX_NOTE: usize = 1024;

/// Takes Events and never waits.
#[derive(Clone, Debug)]
pub(crate) struct EventSink(Sender<Waiting>);

#[derive(Debug)]
pub(crate) struct Waiting {
    notice: Notice,
    evacuation: ObjectReference,
    pod: ObjectReference,
}

impl EventSink {
    /// A sink and what it is emptied by.
    pub(crate) fn new() -> (Self, Receiver<Waiting>) {
        let (sender, receiver) = channel(WAITING);
        (Self(sender), receiver)
    }

    /// Has an Event published on an Evacuation and on its pod.
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
        if let Err(error) = self.0.try_send(Waiting {
            notice,
            evacuation: reference,
            pod,
        }) {
            debug!(error = &error as &dyn std::error::Error, "an event was dropped");
        }
    }
}

/// Publishes what a sink took, one after another, until `stop`.
pub(crate) async fn publish_events(
    client: Client,
    identity: String,
    mut waiting: Receiver<Waiting>,
    stop: CancellationToken,
) {
    let recorder = Recorder::new(
        client,
        Reporter {
            controller: REPORTER.to_owned(),
            instance: Some(identity),
        },
    );
    loop {
        let next = tokio::select! {
            () = stop.cancelled() => return,
            next = waiting.recv() => next,
        };
        let Some(Waiting {
            notice,
            evacuation,
            pod,
        }) = next
        else {
            return;
        };
        for (regarding, related) in [(&evacuation, &pod), (&pod, &evacuation)] {
            let event = Event {
                type_: if notice.warning {
                    EventType::Warning
                } else {
                    EventType::Normal
                },
                reason: notice.reason.to_owned(),
                note: Some(shortened(&notice.note)),
                action: "Evacuate".to_owned(),
                secondary: Some(related.clone()),
            };
            let name = regarding.name.as_deref().unwrap_or_default();
            if let Err(error) = call(
                format!("publish an event on {name}"),
                recorder.publish(&event, regarding),
            )
            .await
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
    fn a_note_is_cut_where_the_api_would_refuse_it() {
        assert_eq!(shortened("short"), "short");
        let long = "ü".repeat(600);
        assert_eq!(shortened(&long), "ü".repeat(512));
        assert_eq!(shortened(&format!("x{long}")).len(), 1023);
    }
}
