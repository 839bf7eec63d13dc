//! Metrics of the cluster view, the registry for those of the features, and the listener that serves them.

mod listener;

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, atomic::AtomicU64},
};

use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Metric, Registry, Unit},
};

pub(crate) use listener::{Probed, serve_metrics};

use super::{CLOCK, Cluster, EventSink, Feature, lock};

/// One label: its name, and a word of a closed set.
pub(crate) type Label = [(&'static str, &'static str); 1];

/// The registry, and the metrics that belong to no feature.
#[derive(Debug)]
pub(crate) struct ClusterMetrics {
    registry: Mutex<Registry>,
    /// 1 while this process leads.
    pub(crate) leader: Gauge,
    /// End of the last outage of the API, in seconds since 1970.
    pub(crate) recovered: Gauge<f64, AtomicU64>,
    /// Difference between the clocks of the API servers that answered lately, in seconds.
    pub(crate) clock_skew: Gauge<f64, AtomicU64>,
    /// Rounds of work that failed.
    pub(crate) failures: Counter,
}

impl ClusterMetrics {
    /// Returns metrics that count nothing yet, beside those that the sink of Events keeps.
    pub(crate) fn new(events: &EventSink) -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("evacuation_controller")),
            leader: Gauge::default(),
            recovered: Gauge::default(),
            clock_skew: Gauge::default(),
            failures: Counter::default(),
        };
        metrics.register("leader", "Whether this process leads", &metrics.leader);
        let help =
            "End of the last time without writes of the API or without a leader, as seconds since 1970";
        metrics.register_seconds("api_recovered", help, &metrics.recovered);
        let help = "Difference between the clocks of the API servers that answered lately";
        metrics.register_seconds("api_clock_skew", help, &metrics.clock_skew);
        metrics.register("failures", "Reconciliations that failed", &metrics.failures);
        let help = "Events that were not published because too many waited, or the API refused them";
        metrics.register("events_dropped", help, &events.dropped());
        metrics
    }

    /// Registers a metric.
    pub(crate) fn register(&self, name: &str, help: &str, metric: &(impl Metric + Clone)) {
        lock(&self.registry).register(name, help, metric.clone());
    }

    /// Registers a metric that is measured in seconds.
    pub(crate) fn register_seconds(&self, name: &str, help: &str, metric: &(impl Metric + Clone)) {
        lock(&self.registry).register_with_unit(name, help, Unit::Seconds, metric.clone());
    }

    /// Registers a new counter with one label.
    pub(crate) fn counters(&self, name: &str, help: &str) -> Family<Label, Counter> {
        let family = Family::default();
        self.register(name, help, &family);
        family
    }

    /// Returns the metrics as OpenMetrics text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &lock(&self.registry));
        text
    }
}

/// The metrics and the readiness of a process with its features.
pub(crate) struct Probe {
    cluster: Cluster,
    /// Names that must be known before the process is ready.
    required: Vec<&'static str>,
}

impl Probe {
    /// Returns the probe of a process that has those features.
    pub(crate) fn new(cluster: Cluster, required: Vec<&'static str>) -> Self {
        Self { cluster, required }
    }
}

impl Probed for Probe {
    fn metrics(&self) -> String {
        self.cluster.features.collect();
        self.cluster.metrics.text()
    }

    fn not_ready(&self) -> Vec<&'static str> {
        self.cluster.readiness.missing(self.required.iter().copied())
    }

    fn warnings(&self) -> Vec<String> {
        let skew = self.cluster.clock.skew_warning();
        let blindness = self.cluster.readiness.blindness(&self.required);
        let blind = blindness
            .map(|it| format!("cannot watch {} since {}: {}", it.kinds.join(", "), it.since, it.reason));
        skew.into_iter().chain(blind).collect()
    }
}

/// Returns the names that must be known before a process with those features is ready.
pub(crate) fn required_names(features: &[Arc<dyn Feature>]) -> Vec<&'static str> {
    let required = features.iter().filter(|feature| feature.is_required());
    let kinds: std::collections::BTreeSet<_> = required.flat_map(|feature| feature.watches()).collect();
    kinds.into_iter().map(|kind| kind.watch_name()).chain([CLOCK]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_say_what_they_count() {
        let metrics = ClusterMetrics::new(&EventSink::default());
        metrics.counters("refreshes", "x").get_or_create(&[("outcome", "refused")]).inc();
        let text = metrics.text();
        for line in [
            "evacuation_controller_refreshes_total{outcome=\"refused\"} 1",
            "evacuation_controller_leader 0",
            "evacuation_controller_events_dropped_total 0",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} in {text}");
        }
    }
}
