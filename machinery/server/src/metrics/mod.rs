//! Metrics, under the names that kube-apiserver uses for the same measurements.

mod audit;
mod flow;
mod store;

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
    time::Instant,
};

use machinery_storage::Store;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

pub(crate) use self::{
    audit::AuditMetrics,
    flow::{FlowMeters, Refusal},
};
use self::{flow::FlowMetrics, store::MeasuredStore};
use crate::{ApiError, registry::StorageUsage};

/// Label of the verb of watches.
pub(crate) const WATCH: &str = "WATCH";

/// Metrics of one server and its store. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    requests: Family<CodeLabels, Counter>,
    durations: Family<RequestLabels, Histogram, fn() -> Histogram>,
    in_flight: Family<InFlightLabels, Gauge>,
    refused: Family<LimitLabels, Counter>,
    watches: Family<WatchLabels, Gauge>,
    watch_events: Family<ResourceLabels, Counter>,
    objects: Family<StoredLabels, Gauge>,
    bytes: Family<StoredLabels, Gauge>,
    namespace_objects: Family<StoredLabels, Gauge>,
    namespace_bytes: Family<StoredLabels, Gauge>,
    unreadable: Family<StoredLabels, Gauge>,
    refused_writes: Family<StoredLabels, Counter>,
    removed_objects: Family<StoredLabels, Counter>,
    ended_watches: Family<StoredLabels, Counter>,
    store: Family<StoreLabels, Histogram, fn() -> Histogram>,
    clock_ahead: Gauge<f64, AtomicU64>,
    audit: AuditMetrics,
    flow: FlowMetrics,
}

/// Labels of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) verb: String,
    pub(crate) dry_run: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) scope: String,
    pub(crate) component: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    verb: String,
    dry_run: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: String,
    component: String,
    code: u16,
}

/// Labels of the watches in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WatchLabels {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: String,
    component: String,
}

/// Labels of metrics by the kind that is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StoredLabels {
    group: String,
    resource: String,
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
    group: String,
    resource: String,
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
        Self::in_registry(Registry::default())
    }

    /// Creates metrics without measurements, besides those that a registry already has.
    pub fn in_registry(mut registry: Registry) -> Self {
        let requests = Family::<CodeLabels, Counter>::default();
        let durations: Family<_, _, fn() -> Histogram> = Family::new_with_constructor(request_seconds as _);
        let in_flight = Family::<InFlightLabels, Gauge>::default();
        let refused = Family::<LimitLabels, Counter>::default();
        let watches = Family::<WatchLabels, Gauge>::default();
        let watch_events = Family::<ResourceLabels, Counter>::default();
        let [objects, bytes, namespace_objects, namespace_bytes, unreadable] =
            [(); 5].map(|()| Family::<StoredLabels, Gauge>::default());
        let clock_ahead = Gauge::<f64, AtomicU64>::default();
        let [refused_writes, removed_objects, ended_watches] =
            [(); 3].map(|()| Family::<StoredLabels, Counter>::default());
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
        registry.register("apiserver_resource_objects", "Objects in the watch cache", objects.clone());
        let help = "Size of the objects in the watch cache, as they are stored";
        registry.register("apiserver_resource_size_estimate_bytes", help, bytes.clone());
        let help = "Objects of the namespace that has most of them";
        registry.register("apiserver_storage_largest_namespace_objects", help, namespace_objects.clone());
        let help = "Size of the objects of the namespace that has most of it";
        registry.register("apiserver_storage_largest_namespace_bytes", help, namespace_bytes.clone());
        let help = "Stored objects that this version of the server cannot read";
        registry.register("apiserver_storage_unreadable_objects", help, unreadable.clone());
        let help = "Writes that were refused because of a limit on the objects of the kind";
        registry.register("apiserver_storage_limit_refusals", help, refused_writes.clone());
        let help = "Finished objects that were removed to make room for a write";
        registry.register("apiserver_storage_limit_removals", help, removed_objects.clone());
        let help = "Watches that were ended because their client did not read fast enough";
        registry.register("apiserver_terminated_watchers", help, ended_watches.clone());
        let help = "Duration of calls of the store, in seconds";
        registry.register("etcd_request_duration_seconds", help, store.clone());
        let help = "Seconds by which the clock is ahead of the one that the servers of the store agree on";
        registry.register("apiserver_clock_ahead_seconds", help, clock_ahead.clone());
        let audit = AuditMetrics::default();
        audit.register(&mut registry);
        let flow = FlowMetrics::default();
        flow.register(&mut registry);
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
            unreadable,
            refused_writes,
            removed_objects,
            ended_watches,
            store,
            clock_ahead,
            audit,
            flow,
        }))
    }

    /// Wraps a store to measure the time of its answers. Its keys begin with that prefix, as
    /// [`Registry::new`](crate::Registry::new) takes it.
    pub fn measure(&self, store: Arc<dyn Store>, prefix: &str) -> Arc<dyn Store> {
        Arc::new(MeasuredStore { store, metrics: self.clone(), prefix: prefix.to_owned() })
    }

    /// Renders all metrics in the text format of OpenMetrics.
    pub(crate) fn text(&self) -> Result<String, ApiError> {
        let mut text = String::new();
        encode(&mut text, &self.0.registry)
            .map_err(|source| ApiError::internal("encoding the metrics", source))?;
        Ok(text)
    }

    /// The metrics of the audit log.
    pub(crate) fn audit(&self) -> &AuditMetrics {
        &self.0.audit
    }

    /// Sets the seconds by which the clock is ahead of the other servers' clocks.
    pub(crate) fn set_clock_ahead(&self, seconds: f64) {
        self.0.clock_ahead.set(seconds);
    }

    /// Counts a reply.
    pub(crate) fn answered(&self, labels: RequestLabels, code: u16, started: Instant) {
        if labels.verb != WATCH {
            self.0.durations.get_or_create(&labels).observe(started.elapsed().as_secs_f64());
        }
        let RequestLabels { verb, dry_run, group, version, resource, subresource, scope, component } = labels;
        let labels =
            CodeLabels { verb, dry_run, group, version, resource, subresource, scope, component, code };
        self.0.requests.get_or_create(&labels).inc();
    }

    /// Counts a request as in progress until the result is dropped.
    pub(crate) fn in_flight(&self, read: bool) -> GaugeGuard {
        let request_kind = if read { "readOnly" } else { "mutating" };
        GaugeGuard::new(self.0.in_flight.get_or_create(&InFlightLabels { request_kind }).clone())
    }

    /// Returns the meters of one limit, such as `reads`.
    pub(crate) fn flow(&self, limit: &'static str) -> FlowMeters {
        let refused = self.0.refused.get_or_create(&LimitLabels { limit }).clone();
        self.0.flow.meters(limit, refused)
    }

    /// Counts a watch as in progress until the result is dropped.
    pub(crate) fn watch(&self, labels: RequestLabels) -> GaugeGuard {
        let RequestLabels { verb, group, version, resource, subresource, scope, component, .. } = labels;
        let labels = WatchLabels { verb, group, version, resource, subresource, scope, component };
        GaugeGuard::new(self.0.watches.get_or_create(&labels).clone())
    }

    /// Returns the counter of events sent to the watches of a resource.
    pub(crate) fn watch_events(&self, labels: &ResourceLabels) -> Counter {
        self.0.watch_events.get_or_create(labels).clone()
    }

    /// Sets the metrics of a kind's storage.
    pub(crate) fn set_storage(&self, group: &str, resource: &str, usage: &StorageUsage) {
        let labels = &StoredLabels { group: group.to_owned(), resource: resource.to_owned() };
        let gauges = [
            (&self.0.objects, usage.total.objects),
            (&self.0.bytes, usage.total.bytes),
            (&self.0.namespace_objects, usage.largest.objects),
            (&self.0.namespace_bytes, usage.largest.bytes),
            (&self.0.unreadable, usage.unreadable),
        ];
        for (family, value) in gauges {
            family.get_or_create(labels).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        let counters = [
            (&self.0.refused_writes, usage.refused),
            (&self.0.removed_objects, usage.removed),
            (&self.0.ended_watches, usage.ended_watches),
        ];
        for (family, value) in counters {
            let counter = family.get_or_create(labels);
            counter.inc_by(value.saturating_sub(counter.get()));
        }
    }

    fn observe(&self, operation: &'static str, stored: StoredLabels, started: Instant) {
        let StoredLabels { group, resource } = stored;
        let labels = StoreLabels { operation, group, resource };
        self.0.store.get_or_create(&labels).observe(started.elapsed().as_secs_f64());
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
