//! The audit log of a server: its policy, its log and their metrics.

use std::sync::Arc;

use machinery_audit::{AuditLog, Decision, Event, NotRecorded, Policy};
use machinery_auth::Attributes;

use crate::{Metrics, metrics::AuditMetrics};

/// Decides on requests and records their events.
#[derive(Clone)]
pub(crate) struct Auditor(Arc<Inner>);

struct Inner {
    policy: Policy,
    log: Arc<AuditLog>,
    metrics: AuditMetrics,
}

impl Auditor {
    pub(crate) fn new(policy: Policy, log: Arc<AuditLog>, metrics: &Metrics) -> Self {
        Self(Arc::new(Inner { policy, log, metrics: metrics.audit().clone() }))
    }

    /// Decides on a request, and counts its level.
    pub(crate) fn decide(&self, attributes: &Attributes) -> Decision {
        let decision = self.0.policy.decide(attributes).clone();
        self.0.metrics.decided(decision.level);
        decision
    }

    /// Records the first event of a request.
    ///
    /// # Errors
    ///
    /// It could not be recorded, and the log is strict: the request must fail.
    pub(crate) async fn begin(&self, event: Event) -> Result<(), NotRecorded> {
        self.0.metrics.events.inc();
        match self.0.log.record(event).await {
            Err(error) if self.0.log.is_strict() => {
                self.0.metrics.rejected.inc();
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Records a later event. The log counts a failure.
    pub(crate) async fn record(&self, event: Event) {
        self.0.metrics.events.inc();
        let _ = self.0.log.record(event).await;
    }

    /// Records an event without waiting. The log counts a failure.
    pub(crate) fn offer(&self, event: Event) {
        self.0.metrics.events.inc();
        let _ = self.0.log.offer(event);
    }

    /// Updates the metrics of the log.
    pub(crate) fn measure(&self) {
        self.0.metrics.set_failures(self.0.log.failures());
    }
}
