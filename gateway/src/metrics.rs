//! Metrics of the gateway.

use std::time::Duration;

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};

use crate::config::ConfigurationGauges;

/// Bounds of the buckets of the time of a call, in seconds. The last bound is the gateway's own limit.
const BUCKETS: [f64; 8] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.4, 0.8];

/// Labels of a counted call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    webhook: &'static str,
    caller: String,
    verdict: &'static str,
}

/// Labels of a call that passed unasked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UnaskedLabels {
    webhook: &'static str,
    reason: &'static str,
}

/// Label of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WebhookLabels {
    webhook: &'static str,
}

/// The metrics.
pub(crate) struct Metrics {
    registry: Registry,
    calls: Family<CallLabels, Counter>,
    unasked: Family<UnaskedLabels, Counter>,
    seconds: Family<WebhookLabels, Histogram, fn() -> Histogram>,
    /// Events that were not published because too many waited, or the API refused them.
    pub(crate) events_dropped: Counter,
    /// Entries that left because the pod's owner no longer wanted the deletion.
    pub(crate) entries_withdrawn: Counter,
    /// Calls that wait because a limit or a ResourceQuota has no room for their entries.
    pub(crate) calls_without_room: Counter,
    /// Calls that wait because what concerns their pods cannot be read.
    pub(crate) calls_unreadable: Counter,
    /// Calls that wait because the evacuation API rejects their questions.
    pub(crate) questions_rejected: Counter,
    /// Requests that did not prove to be the kube-apiserver's.
    pub(crate) calls_rejected: Counter,
    /// Pods that were read because the cache was not enough.
    pub(crate) pods_read: Counter,
    /// The state of the configuration.
    pub(crate) configuration: ConfigurationGauges,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("evacuation_gateway");
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let metrics = Self {
            registry: Registry::default(),
            calls: Family::default(),
            unasked: Family::default(),
            seconds: Family::new_with_constructor(histogram),
            events_dropped: Counter::default(),
            entries_withdrawn: Counter::default(),
            calls_without_room: Counter::default(),
            calls_unreadable: Counter::default(),
            questions_rejected: Counter::default(),
            calls_rejected: Counter::default(),
            pods_read: Counter::default(),
            configuration: ConfigurationGauges::default(),
        };
        registry.register("calls", "Calls by webhook, row of the caller and verdict", metrics.calls.clone());
        let help = "Calls that passed although the app was not asked, or its answer was not waited for";
        registry.register("passed_unasked", help, metrics.unasked.clone());
        let help = "Time from the receipt of a call to its answer";
        registry.register_with_unit("call", help, Unit::Seconds, metrics.seconds.clone());
        let help = "Events that were not published because too many waited, or the API refused them";
        registry.register("events_dropped", help, metrics.events_dropped.clone());
        let help = "Entries that left because the owner of the pod no longer wanted the deletion";
        registry.register("entries_withdrawn", help, metrics.entries_withdrawn.clone());
        let help = "Calls that wait because a limit or a ResourceQuota has no room for their entries";
        registry.register("calls_without_room", help, metrics.calls_without_room.clone());
        let help = "Calls that wait because an Evacuation or a registration cannot be read";
        registry.register("calls_unreadable", help, metrics.calls_unreadable.clone());
        let help = "Calls that wait because the evacuation API rejects their questions";
        registry.register("questions_rejected", help, metrics.questions_rejected.clone());
        let help = "Requests that did not prove to be the kube-apiserver's";
        registry.register("calls_rejected", help, metrics.calls_rejected.clone());
        let help = "Pods that were read from the kube-apiserver because the cache was not enough";
        registry.register("pods_read", help, metrics.pods_read.clone());
        let help = "Whether the newest configuration is in use";
        registry.register("configuration_valid", help, metrics.configuration.valid.clone());
        let help = "Configurations that came into use";
        registry.register("configuration_loads", help, metrics.configuration.loads.clone());
        Self { registry, ..metrics }
    }
}

impl Metrics {
    /// Counts an answered call.
    pub(crate) fn count(&self, webhook: &'static str, caller: &str, verdict: &'static str, time: Duration) {
        self.calls.get_or_create(&CallLabels { webhook, caller: caller.to_owned(), verdict }).inc();
        self.seconds.get_or_create(&WebhookLabels { webhook }).observe(time.as_secs_f64());
    }

    /// Counts a call that passed unasked.
    pub(crate) fn count_unasked(&self, webhook: &'static str, reason: &'static str) {
        self.unasked.get_or_create(&UnaskedLabels { webhook, reason }).inc();
    }

    /// Returns the metrics as OpenMetrics text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
