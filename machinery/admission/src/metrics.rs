//! Metrics, under upstream's names: `k8s.io/apiserver/pkg/admission/metrics` and
//! `.../policy/validating/metrics`.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// Metrics of the plugins. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AdmissionMetrics {
    calls: Calls,
    requests: Family<RequestLabels, Counter>,
    rejections: Family<RejectionLabels, Gauge>,
    failed_open: Family<NameLabels, Gauge>,
    checks: Family<CheckLabels, Counter>,
    check_seconds: Checks,
    token_requests: Family<CodeLabels, Counter>,
}

#[derive(Clone, Debug)]
struct Calls(Family<CallLabels, Histogram, fn() -> Histogram>);

#[derive(Clone, Debug)]
struct Checks(Family<CheckLabels, Histogram, fn() -> Histogram>);

impl Default for Calls {
    fn default() -> Self {
        Self(Family::new_with_constructor(webhook_seconds))
    }
}

impl Default for Checks {
    fn default() -> Self {
        Self(Family::new_with_constructor(check_seconds))
    }
}

fn webhook_seconds() -> Histogram {
    Histogram::new([0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0])
}

fn check_seconds() -> Histogram {
    Histogram::new([0.000_000_5, 0.001, 0.01, 0.1, 1.0])
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    rejected: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    code: String,
    rejected: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectionLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    error_type: &'static str,
    rejection_code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NameLabels {
    name: String,
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    code: String,
}

/// Labels of the checks by a policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CheckLabels {
    pub(crate) policy: String,
    pub(crate) policy_binding: String,
    pub(crate) error_type: &'static str,
    pub(crate) enforcement_action: &'static str,
}

/// A finished call of a webhook.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) webhook: &'a str,
    /// `admit` or `validating`.
    pub(crate) kind: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) duration: Duration,
    /// HTTP status code of the outcome; 0 for an unknown one.
    pub(crate) code: i32,
    /// Reason for the rejection: `calling_webhook_error`, `apiserver_internal_error` or `no_error`.
    pub(crate) rejection: Option<&'static str>,
}

impl AdmissionMetrics {
    /// Creates the metrics and adds them to a registry.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let help = "Duration of calls of admission webhooks, in seconds";
        let name = "apiserver_admission_webhook_admission_duration_seconds";
        registry.register(name, help, metrics.calls.0.clone());
        let help = "Calls of admission webhooks";
        registry.register("apiserver_admission_webhook_request", help, metrics.requests.clone());
        // Gauges, because upstream's names have no suffix `_total`. They only grow.
        let help = "Rejections by admission webhooks";
        registry.register("apiserver_admission_webhook_rejection_count", help, metrics.rejections.clone());
        let help = "Failed calls of admission webhooks that were ignored";
        registry.register("apiserver_admission_webhook_fail_open_count", help, metrics.failed_open.clone());
        let help = "Checks by validating admission policies";
        registry.register("apiserver_validating_admission_policy_check", help, metrics.checks.clone());
        let help = "Duration of checks by validating admission policies, in seconds";
        let name = "apiserver_validating_admission_policy_check_duration_seconds";
        registry.register(name, help, metrics.check_seconds.0.clone());
        // Upstream has no such metric yet.
        let help = "Requests of tokens for admission webhooks";
        let name = "apiserver_admission_webhook_token_request";
        registry.register(name, help, metrics.token_requests.clone());
        metrics
    }

    pub(crate) fn observe_call(&self, call: Call<'_>) {
        let Call { webhook, kind, operation, duration, code, rejection } = call;
        let (name, rejected) = (webhook.to_owned(), rejection.is_some().to_string());
        let labels = CallLabels { name: name.clone(), r#type: kind, operation, rejected: rejected.clone() };
        self.calls.0.get_or_create(&labels).observe(duration.as_secs_f64());
        let labels =
            RequestLabels { name: name.clone(), r#type: kind, operation, code: code.to_string(), rejected };
        self.requests.get_or_create(&labels).inc();
        if let Some(error_type) = rejection {
            let labels = RejectionLabels {
                name,
                r#type: kind,
                operation,
                error_type,
                // As upstream, codes beyond 600 count as one.
                rejection_code: code.min(600).to_string(),
            };
            self.rejections.get_or_create(&labels).inc();
        }
    }

    pub(crate) fn observe_fail_open(&self, webhook: &str, kind: &'static str) {
        self.failed_open.get_or_create(&NameLabels { name: webhook.to_owned(), r#type: kind }).inc();
    }

    /// Counts a request of a token, by the HTTP status code of its reply; 0 for none.
    pub(crate) fn observe_token_request(&self, code: u16) {
        self.token_requests.get_or_create(&CodeLabels { code: code.to_string() }).inc();
    }

    pub(crate) fn observe_check(&self, labels: &CheckLabels, duration: Duration) {
        self.checks.get_or_create(labels).inc();
        self.check_seconds.0.get_or_create(labels).observe(duration.as_secs_f64());
    }
}
