//! Metrics, under the names that kube-apiserver uses for the same measurements.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
    time::Instant,
};

use async_trait::async_trait;
use machinery_storage::{Outcome, Page, Range, Read, Store, StoreError, Transaction, WatchStream};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{ApiError, http::RequestInfo, registry::StorageUsage, server::Served};

/// Metrics of one server and its store. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    requests: Family<CodeLabels, Counter>,
    durations: Family<RequestLabels, Histogram, fn() -> Histogram>,
    in_flight: Family<InFlightLabels, Gauge>,
    refused: Family<LimitLabels, Counter>,
    watches: Family<ResourceLabels, Gauge>,
    watch_events: Family<ResourceLabels, Counter>,
    objects: Family<ResourceLabels, Gauge>,
    bytes: Family<ResourceLabels, Gauge>,
    namespace_objects: Family<ResourceLabels, Gauge>,
    namespace_bytes: Family<ResourceLabels, Gauge>,
    refused_writes: Family<ResourceLabels, Counter>,
    ended_watches: Family<ResourceLabels, Counter>,
    store: Family<StoreLabels, Histogram, fn() -> Histogram>,
    clock_ahead: Gauge<f64, AtomicU64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    code: u16,
}

/// Labels of metrics by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ResourceLabels {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InFlightLabels {
    request_kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StoreLabels {
    operation: &'static str,
}

/// Label of unknown names.
const OTHER: &str = "other";

/// Returns the label of a verb of [`RequestInfo`].
fn verb_label(verb: &str) -> &'static str {
    match verb {
        "get" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" => "CREATE",
        "update" => "UPDATE",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        "head" => "HEAD",
        "post" => "POST",
        "put" => "PUT",
        "options" => "OPTIONS",
        _ => OTHER,
    }
}

fn request_seconds() -> Histogram {
    Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0])
}

fn store_seconds() -> Histogram {
    Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0])
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Creates metrics without measurements.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let requests = Family::<CodeLabels, Counter>::default();
        let durations: Family<_, _, fn() -> Histogram> = Family::new_with_constructor(request_seconds as _);
        let in_flight = Family::<InFlightLabels, Gauge>::default();
        let refused = Family::<LimitLabels, Counter>::default();
        let watches = Family::<ResourceLabels, Gauge>::default();
        let watch_events = Family::<ResourceLabels, Counter>::default();
        let [objects, bytes, namespace_objects, namespace_bytes] =
            [(); 4].map(|()| Family::<ResourceLabels, Gauge>::default());
        let clock_ahead = Gauge::<f64, AtomicU64>::default();
        let [refused_writes, ended_watches] = [(); 2].map(|()| Family::<ResourceLabels, Counter>::default());
        let store: Family<_, _, fn() -> Histogram> = Family::new_with_constructor(store_seconds as _);
        registry.register("apiserver_request", "Requests that were served", requests.clone());
        let help = "Duration of requests other than watches, in seconds";
        registry.register("apiserver_request_duration_seconds", help, durations.clone());
        let help = "Requests in progress other than watches";
        registry.register("apiserver_current_inflight_requests", help, in_flight.clone());
        let help = "Requests that were refused because a limit was reached";
        registry.register("apiserver_refused_requests", help, refused.clone());
        registry.register("apiserver_longrunning_requests", "Watches in progress", watches.clone());
        registry.register("apiserver_watch_events", "Events sent to watches", watch_events.clone());
        registry.register("apiserver_storage_objects", "Objects in the watch cache", objects.clone());
        let help = "Size of the objects in the watch cache, as they are stored";
        registry.register("apiserver_storage_bytes", help, bytes.clone());
        let help = "Objects of the namespace that has most of them";
        registry.register("apiserver_storage_largest_namespace_objects", help, namespace_objects.clone());
        let help = "Size of the objects of the namespace that has most of it";
        registry.register("apiserver_storage_largest_namespace_bytes", help, namespace_bytes.clone());
        let help = "Writes that were refused because of a limit on the objects of the kind";
        registry.register("apiserver_storage_limit_refusals", help, refused_writes.clone());
        let help = "Watches that were ended because their client did not read fast enough";
        registry.register("apiserver_terminated_watchers", help, ended_watches.clone());
        let help = "Duration of calls of the store, in seconds";
        registry.register("apiserver_storage_request_duration_seconds", help, store.clone());
        let help = "Seconds by which the clock is ahead of the one that the servers of the store agree on";
        registry.register("apiserver_clock_ahead_seconds", help, clock_ahead.clone());
        Self(Arc::new(Inner {
            registry,
            requests,
            durations,
            in_flight,
            refused,
            watches,
            watch_events,
            objects,
            bytes,
            namespace_objects,
            namespace_bytes,
            refused_writes,
            ended_watches,
            store,
            clock_ahead,
        }))
    }

    /// Wraps a store to measure the time of its answers.
    pub fn measure(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(MeasuredStore { store, metrics: self.clone() })
    }

    /// Renders all metrics in the text format of OpenMetrics.
    pub(crate) fn text(&self) -> Result<String, ApiError> {
        let mut text = String::new();
        encode(&mut text, &self.0.registry)
            .map_err(|source| ApiError::internal("encoding the metrics", source))?;
        Ok(text)
    }

    /// Sets the seconds by which the clock is ahead of the other servers' clocks.
    pub(crate) fn set_clock_ahead(&self, seconds: f64) {
        self.0.clock_ahead.set(seconds);
    }

    /// Counts a reply. `served` is the resource that the request names, if it is served. Names that callers
    /// made up are no labels: each would be kept for ever.
    pub(crate) fn answered(&self, info: &RequestInfo, served: Option<&Served>, code: u16, started: Instant) {
        let resource = info.resource.as_ref().zip(served);
        let text = |text: Option<&String>| text.cloned().unwrap_or_default();
        let verb = if info.resource.is_some() && served.is_none() { "" } else { verb_label(&info.verb) };
        let subresource =
            resource.map(
                |(request, served)| {
                    if served.has(&request.subresource) { request.subresource.as_str() } else { OTHER }
                },
            );
        let resource = resource.map(|(request, _)| request);
        let labels = RequestLabels {
            verb: verb.to_owned(),
            group: text(resource.map(|r| &r.group)),
            version: text(resource.map(|r| &r.version)),
            resource: text(resource.map(|r| &r.resource)),
            subresource: subresource.unwrap_or_default().to_owned(),
        };
        if !info.is_watch() {
            self.0.durations.get_or_create(&labels).observe(started.elapsed().as_secs_f64());
        }
        let RequestLabels { verb, group, version, resource, subresource } = labels;
        let labels = CodeLabels { verb, group, version, resource, subresource, code };
        self.0.requests.get_or_create(&labels).inc();
    }

    /// Counts a request as in progress until the result is dropped.
    pub(crate) fn in_flight(&self, read: bool) -> GaugeGuard {
        let request_kind = if read { "readOnly" } else { "mutating" };
        GaugeGuard::new(self.0.in_flight.get_or_create(&InFlightLabels { request_kind }).clone())
    }

    /// Returns the counter of requests that were refused because of that limit.
    pub(crate) fn refused(&self, limit: &'static str) -> Counter {
        self.0.refused.get_or_create(&LimitLabels { limit }).clone()
    }

    /// Counts a watch as in progress until the result is dropped.
    pub(crate) fn watch(&self, labels: &ResourceLabels) -> GaugeGuard {
        GaugeGuard::new(self.0.watches.get_or_create(labels).clone())
    }

    /// Returns the counter of events sent to the watches of a resource.
    pub(crate) fn watch_events(&self, labels: &ResourceLabels) -> Counter {
        self.0.watch_events.get_or_create(labels).clone()
    }

    /// Sets the metrics of a kind's storage.
    pub(crate) fn set_storage(&self, labels: &ResourceLabels, usage: &StorageUsage) {
        let gauges = [
            (&self.0.objects, usage.total.objects),
            (&self.0.bytes, usage.total.bytes),
            (&self.0.namespace_objects, usage.largest.objects),
            (&self.0.namespace_bytes, usage.largest.bytes),
        ];
        for (family, value) in gauges {
            family.get_or_create(labels).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        let counters =
            [(&self.0.refused_writes, usage.refused), (&self.0.ended_watches, usage.ended_watches)];
        for (family, value) in counters {
            let counter = family.get_or_create(labels);
            counter.inc_by(value.saturating_sub(counter.get()));
        }
    }

    fn observe(&self, operation: &'static str, started: Instant) {
        self.0.store.get_or_create(&StoreLabels { operation }).observe(started.elapsed().as_secs_f64());
    }
}

/// Increments a gauge as long as it lives.
#[derive(Debug)]
pub(crate) struct GaugeGuard(Gauge);

impl GaugeGuard {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

struct MeasuredStore {
    store: Arc<dyn Store>,
    metrics: Metrics,
}

#[async_trait]
impl Store for MeasuredStore {
    async fn get(&self, key: &str) -> Result<Read, StoreError> {
        let started = Instant::now();
        let result = self.store.get(key).await;
        self.metrics.observe("get", started);
        result
    }

    async fn list(&self, range: &Range) -> Result<Page, StoreError> {
        let started = Instant::now();
        let result = self.store.list(range).await;
        self.metrics.observe("list", started);
        result
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome, StoreError> {
        let started = Instant::now();
        let result = self.store.commit(transaction).await;
        self.metrics.observe("commit", started);
        result
    }

    async fn watch(&self, prefix: &str, after_revision: i64) -> Result<WatchStream, StoreError> {
        self.store.watch(prefix, after_revision).await
    }

    async fn request_progress(&self) -> Result<(), StoreError> {
        self.store.request_progress().await
    }

    async fn compact(&self, revision: i64) -> Result<(), StoreError> {
        self.store.compact(revision).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        let started = Instant::now();
        let result = self.store.ready().await;
        self.metrics.observe("ready", started);
        result
    }
}
