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
    core::Status,
};
use machinery_validation::derived_name;
use prometheus_client::metrics::counter::Counter;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    EventSink,
    record::Record,
    series::{AllSeries, EventName, SeriesUpdate},
};

/// Maximum time of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two looks for series that are to be written.
const FLUSH_EVERY: Duration = Duration::from_secs(5);
/// Maximum number of attempts to create an Event that is not progress.
const ATTEMPTS: u32 = 5;
/// Maximum number of attempts to create an Event of progress.
const PROGRESS_ATTEMPTS: u32 = 2;
/// Shortest and longest pause between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// Maximum time in which the records that wait at the end are published.
pub const LAST_EVENTS: Duration = Duration::from_secs(2);

/// Publishes what a sink took, one record after another, until `stop`. Then it publishes the rest at once.
pub async fn publish_events(client: Client, reporter: Reporter, sink: EventSink, stop: CancellationToken) {
    let (series, dropped) = (AllSeries::default(), sink.dropped());
    let mut publisher = Publisher { client, reporter, series, dropped };
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

/// The program that reports Events.
#[derive(Clone, Debug)]
pub struct Reporter {
    /// Name of the program, such as `evacuation-controller`.
    pub controller: &'static str,
    /// Name of this process.
    pub instance: String,
    /// The action of every Event, in CamelCase.
    pub action: &'static str,
}

/// Failure of a request about an Event.
#[derive(Debug, thiserror::Error)]
enum PublishError {
    /// The API refused it or could not be reached.
    #[error("could not {action}")]
    Api {
        /// Action, with the Event's name.
        action: String,
        /// Error of the API or of the connection.
        #[source]
        source: kube::Error,
    },
    /// The API did not answer in time.
    #[error("could not {action}: no answer within {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout {
        /// Action, with the Event's name.
        action: String,
    },
}

impl PublishError {
    fn status(&self) -> Option<&Status> {
        match self {
            Self::Api { source: kube::Error::Api(status), .. } => Some(status),
            Self::Api { .. } | Self::Timeout { .. } => None,
        }
    }

    /// Returns the code of the Status, or 0.
    fn code(&self) -> u16 {
        self.status().map_or(0, |status| status.code)
    }

    /// Returns true when the namespace is gone, or on its way out: nobody reads its Events.
    fn is_of_gone_namespace(&self) -> bool {
        let details = self.status().and_then(|status| status.details.as_ref());
        let mut causes = details.into_iter().flat_map(|details| &details.causes);
        self.code() == 404 || causes.any(|cause| cause.reason == "NamespaceTerminating")
    }

    /// Returns the pause before the next attempt: the API's wish, or a time that doubles with each attempt.
    fn pause(&self, attempt: u32) -> Duration {
        let wish = self.status().and_then(|status| status.details.as_ref());
        let wish = wish.map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
        let doubled = PAUSE.0.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1)));
        wish.map_or(doubled, |seconds| Duration::from_secs(seconds.into())).min(PAUSE.1)
    }
}

async fn call<T>(action: String, request: impl Future<Output = kube::Result<T>>) -> Result<T, PublishError> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(result) => result.map_err(|source| PublishError::Api { action, source }),
        Err(_) => Err(PublishError::Timeout { action }),
    }
}

struct Publisher {
    client: Client,
    reporter: Reporter,
    series: AllSeries,
    /// Number of Events that were not published.
    dropped: Counter,
}

impl Publisher {
    async fn publish(&mut self, record: Record) {
        if self.series.count(&record, Instant::now()) {
            return;
        }
        let event = event(&record, &self.reporter);
        let name = EventName {
            namespace: event.metadata.namespace.clone().unwrap_or_default(),
            name: event.metadata.name.clone().unwrap_or_default(),
        };
        let attempts = if record.notice.progress { PROGRESS_ATTEMPTS } else { ATTEMPTS };
        match self.create(&name, &event, attempts).await {
            Ok(()) => self.series.created(&record, name, Instant::now()),
            Err(error) => {
                let (reason, object) = (record.notice.reason, record.regarding.name.as_deref());
                self.dropped.inc_by(u64::from(!error.is_of_gone_namespace()));
                warn!(error = &error as &dyn Error, reason, object, "an event was not published");
            }
        }
    }

    /// Creates an Event, in several attempts while the API is slow or away.
    async fn create(&self, name: &EventName, event: &Event, attempts: u32) -> Result<(), PublishError> {
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
            sleep(error.pause(attempt)).await;
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

    async fn patch(&self, update: &SeriesUpdate) -> Result<(), PublishError> {
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
fn event(record: &Record, reporter: &Reporter) -> Event {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let now = Timestamp::now();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let unique = format!(".{:x}.{number:x}", now.as_microsecond());
    let namespace = if record.namespace().is_empty() { "default" } else { record.namespace() };
    let object = record.regarding.name.as_deref().unwrap_or_default();
    Event {
        metadata: ObjectMeta {
            name: Some(derived_name(object, &unique)),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        action: Some(reporter.action.to_owned()),
        event_time: Some(MicroTime(record.time)),
        note: Some(record.notice.note.clone()),
        reason: Some(record.notice.reason.to_owned()),
        regarding: Some(record.regarding.clone()),
        related: record.related.clone(),
        reporting_controller: Some(reporter.controller.to_owned()),
        reporting_instance: Some(reporter.instance.clone()),
        type_: Some(if record.notice.warning { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests;
