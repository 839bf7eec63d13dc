//! Metrics of the audit log.

use machinery_audit::{Failures, Level};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// Metrics of the audit log.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditMetrics {
    /// Events that were given to the log.
    pub(crate) events: Counter,
    /// Requests that failed because their first event was not recorded.
    pub(crate) rejected: Counter,
    errors: Family<PluginLabels, Counter>,
    levels: Family<LevelLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLabels {
    plugin: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LevelLabels {
    level: &'static str,
}

impl AuditMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Audit events that were given to the log";
        registry.register("apiserver_audit_event", help, self.events.clone());
        let help = "Audit events that were not written";
        registry.register("apiserver_audit_error", help, self.errors.clone());
        let help = "Audit levels of requests";
        registry.register("apiserver_audit_level", help, self.levels.clone());
        let help = "Requests that failed because their first audit event was not written";
        registry.register("apiserver_audit_requests_rejected", help, self.rejected.clone());
    }

    /// Counts the level of a request.
    pub(crate) fn decided(&self, level: Level) {
        self.levels.get_or_create(&LevelLabels { level: level.into() }).inc();
    }

    /// Sets the numbers of events that were not written.
    pub(crate) fn set_failures(&self, failures: Failures) {
        for (plugin, count) in [("buffered", failures.buffered), ("log", failures.log)] {
            let counter = self.errors.get_or_create(&PluginLabels { plugin });
            counter.inc_by(count.saturating_sub(counter.get()));
        }
    }
}
