//! Metrics of drains.

use evacuation_api::DrainVerdict;
use prometheus_client::metrics::{family::Family, gauge::Gauge};

use crate::cluster::{ClusterMetrics, Label};

/// Metrics of drains.
#[derive(Clone, Debug)]
pub(super) struct DrainMetrics {
    /// NodeEvacuations by verdict.
    drains: Family<Label, Gauge>,
}

impl DrainMetrics {
    /// Registers the metrics.
    pub(super) fn new(registry: &ClusterMetrics) -> Self {
        let metrics = Self { drains: Family::default() };
        registry.register("drains", "NodeEvacuations by verdict", &metrics.drains);
        metrics
    }

    /// Sets the number of drains of each verdict. A verdict that no drain has is 0, so that an alert on it
    /// ends.
    pub(super) fn set(&self, verdicts: impl Iterator<Item = DrainVerdict>) {
        let verdicts: Vec<DrainVerdict> = verdicts.collect();
        for verdict in DrainVerdict::ALL {
            let count = verdicts.iter().filter(|known| **known == verdict).count();
            let gauge = self.drains.get_or_create(&[("verdict", verdict.as_str())]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::EventSink;

    #[test]
    fn a_verdict_that_no_drain_has_any_more_is_zero() {
        let registry = ClusterMetrics::new(&EventSink::default());
        let metrics = DrainMetrics::new(&registry);
        let line = |verdict: &str, count: u32| {
            format!("evacuation_controller_drains{{verdict=\"{verdict}\"}} {count}")
        };
        for (verdicts, expected) in [
            (vec![DrainVerdict::Stuck, DrainVerdict::Stuck], [line("Stuck", 2), line("Failed", 0)]),
            (vec![DrainVerdict::Stuck, DrainVerdict::Failed], [line("Stuck", 1), line("Failed", 1)]),
            (vec![DrainVerdict::Failed], [line("Stuck", 0), line("Failed", 1)]),
        ] {
            metrics.set(verdicts.into_iter());
            let text = registry.text();
            for line in expected {
                assert!(text.lines().any(|known| known == line), "{line} in {text}");
            }
        }
    }
}
