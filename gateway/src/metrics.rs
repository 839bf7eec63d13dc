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
    /// Events that were not published because too many waited.
    pub(crate) events_dropped: Counter,
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
            configuration: ConfigurationGauges::default(),
        };
        registry.register("calls", "Calls by webhook, row of the caller and verdict", metrics.calls.clone());
        let help = "Calls that passed although the app should have been asked";
        registry.register("passed_unasked", help, metrics.unasked.clone());
        let help = "Time from the receipt of a call to its answer";
        registry.register_with_unit("call", help, Unit::Seconds, metrics.seconds.clone());
        let help = "Events that were not published because too many waited";
        registry.register("events_dropped", help, metrics.events_dropped.clone());
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
