//! The task that publishes what the sink took.

use std::{
    error::Error,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use k8s_openapi::{
    api::events::v1::{Event, EventSeries},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    EventSink,
    record::Record,
    series::{AllSeries, EventName, SeriesUpdate},
};
use crate::cluster::{CallError, backoff, call};

/// Name under which Events are reported.
const REPORTER: &str = "evacuation-controller";
/// The action of every Event.
const ACTION: &str = "Evacuate";
/// Time between two looks for series that are to be written.
const FLUSH_EVERY: Duration = Duration::from_secs(5);
/// Maximum number of attempts to create an Event that is not progress.
const ATTEMPTS: u32 = 5;
/// Maximum number of attempts to create an Event of progress.
const PROGRESS_ATTEMPTS: u32 = 2;
/// Shortest and longest pause between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// Maximum length of the object's name in the name of an Event.
const MAX_NAME: usize = 200;

/// Maximum time in which the records that wait at the end are published.
pub(crate) const LAST_EVENTS: Duration = Duration::from_secs(2);

/// Publishes what a sink took, one record after another, until `stop`. Then it publishes the rest at once.
pub(crate) async fn publish_events(
    client: Client,
    identity: String,
    sink: EventSink,
    stop: CancellationToken,
) {
    let mut publisher = Publisher { client, identity, series: AllSeries::default() };
    let mut flush = interval(FLUSH_EVERY);
    flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            _ = flush.tick() => publisher.flush().await,
            record = sink.next() => publisher.publish(record).await,
        }
    }
    let rest = async {
        while let Some(record) = sink.take_now() {
            publisher.publish(record).await;
        }
    };
    if timeout(LAST_EVENTS, rest).await.is_err() {
        warn!("some events were not published before the end");
    }
}

struct Publisher {
    client: Client,
    /// Name of this process.
    identity: String,
    series: AllSeries,
}

impl Publisher {
    async fn publish(&mut self, record: Record) {
        if self.series.count(&record, Instant::now()) {
            return;
        }
        let event = event(&record, &self.identity);
        let name = EventName {
            namespace: event.metadata.namespace.clone().unwrap_or_default(),
            name: event.metadata.name.clone().unwrap_or_default(),
        };
        let attempts = if record.notice.progress { PROGRESS_ATTEMPTS } else { ATTEMPTS };
        match self.create(&name, &event, attempts).await {
            Ok(()) => self.series.created(&record, name, Instant::now()),
            Err(error) => {
                let (reason, object) = (record.notice.reason, record.regarding.name.as_deref());
                warn!(error = &error as &dyn Error, reason, object, "an event was not published");
            }
        }
    }

    /// Creates an Event, in several attempts while the API is slow or away.
    async fn create(&self, name: &EventName, event: &Event, attempts: u32) -> Result<(), CallError> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &name.namespace);
        let mut attempt = 1;
        loop {
            let action = format!("create event {}/{}", name.namespace, name.name);
            let Err(error) = call(action, api.create(&PostParams::default(), event)).await else {
                return Ok(());
            };
            match error.code() {
                // An attempt that was not answered in time was carried out.
                409 if attempt > 1 => return Ok(()),
                0 | 429 | 500.. if attempt < attempts => {}
                _ => return Err(error),
            }
            sleep(error.retry_after().unwrap_or_else(|| backoff(PAUSE.0, PAUSE.1, attempt)).min(PAUSE.1))
                .await;
            attempt += 1;
        }
    }

    /// Writes the counts that are due.
    async fn flush(&mut self) {
        for update in self.series.due(Instant::now()) {
            if let Err(error) = self.patch(&update).await {
                self.series.forget(&update.event);
                if error.code() != 404 {
                    let event = &update.event.name;
                    warn!(error = &error as &dyn Error, event, "the count of an event was not written");
                }
            }
        }
    }

    async fn patch(&self, update: &SeriesUpdate) -> Result<(), CallError> {
        let EventName { namespace, name } = &update.event;
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let series = EventSeries { count: update.count, last_observed_time: MicroTime(Timestamp::now()) };
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(json!({"series": series})));
        let action = format!("count in event {namespace}/{name}");
        call(action, api.patch(name, &parameters, &patch)).await.map(|_| ())
    }
}

/// Returns the Event of a record. An Event about an object outside namespaces is in the namespace `default`,
/// as in client-go.
fn event(record: &Record, identity: &str) -> Event {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let now = Timestamp::now();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let unique = format!("{:x}.{number:x}", now.as_microsecond());
    let namespace = if record.namespace().is_empty() { "default" } else { record.namespace() };
    let name = record.regarding.name.as_deref().unwrap_or_default();
    let name = name[..name.floor_char_boundary(MAX_NAME)].trim_end_matches(['.', '-']);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{unique}")),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        action: Some(ACTION.to_owned()),
        event_time: Some(MicroTime(record.time)),
        note: Some(record.notice.note.clone()),
        reason: Some(record.notice.reason.to_owned()),
        regarding: Some(record.regarding.clone()),
        related: record.related.clone(),
        reporting_controller: Some(REPORTER.to_owned()),
        reporting_instance: Some(identity.to_owned()),
        type_: Some(if record.notice.warning { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests;
