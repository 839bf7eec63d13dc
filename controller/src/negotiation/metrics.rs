//! Metrics of the negotiation.

use std::collections::BTreeMap;

use evacuation_api::{Answer, Evacuation, Timestamp};
use evacuation_protocol::EvictionOutcome;
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram};

use super::notice::Transition;
use crate::cluster::{ClusterMetrics, Label};

/// Upper bounds of latencies, in seconds: from the aim, below 50 ms, to the timeouts.
const LATENCY_BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// Metrics of the negotiation.
#[derive(Clone, Debug)]
pub(super) struct NegotiationMetrics {
    /// Evacuations by phase.
    evacuations: Family<Label, Gauge>,
    /// Answers by answer, and silences.
    answers: Family<Label, Counter>,
    /// Attempts to evict or delete, by outcome.
    pub(super) evictions: Family<Label, Counter>,
    /// Questions posted, by outcome.
    pub(super) pushes: Family<Label, Counter>,
    /// Pods that went without the controller although a responder had refused or was being asked.
    deleted_despite_answer: Counter,
    /// Time from the first requester to the delivery of the first question.
    asked: Histogram,
    /// Time from the last acceptance to the attempt to evict.
    evicting: Histogram,
    /// Evacuations that wait for a worker, for their time, or for a budget.
    queues: Family<Label, Gauge>,
}

impl NegotiationMetrics {
    /// Registers the metrics.
    pub(super) fn new(registry: &ClusterMetrics) -> Self {
        let latency = || Histogram::new(LATENCY_BOUNDS);
        let metrics = Self {
            evacuations: Family::default(),
            answers: registry.counters("answers", "Answers of responders, and silences"),
            evictions: registry.counters("evictions", "Attempts to evict or delete a pod by outcome"),
            pushes: registry.counters("pushes", "Questions posted to apps by outcome"),
            deleted_despite_answer: Counter::default(),
            asked: latency(),
            evicting: latency(),
            queues: Family::default(),
        };
        registry.register("evacuations", "Evacuations by phase", &metrics.evacuations);
        let help = "Pods that went without the controller although a responder refused or was being asked";
        registry.register("pods_deleted_despite_answer", help, &metrics.deleted_despite_answer);
        let help =
            "Time from the first requester until an endpoint has the first question, or has answered it";
        registry.register_seconds("asked_latency", help, &metrics.asked);
        let help = "Time from the last acceptance to the attempt to evict";
        registry.register_seconds("evicting_latency", help, &metrics.evicting);
        registry.register("queue_length", "Evacuations that wait, by what for", &metrics.queues);
        metrics
    }

    /// Counts a transition of an Evacuation.
    pub(super) fn count(&self, transition: Transition, evacuation: &Evacuation) {
        match transition {
            Transition::Accepted
            | Transition::Delayed
            | Transition::Refused
            | Transition::Silent
            | Transition::NoValidAnswer
            | Transition::Unreachable => {
                self.answers.get_or_create(&[("answer", transition.as_str())]).inc();
            }
            Transition::DeletedDespiteAnswer => {
                self.deleted_despite_answer.inc();
            }
            Transition::Evicting => observe(&self.evicting, evicting_latency(evacuation)),
            _ => {}
        }
    }

    /// Takes in that the first question to an endpoint was delivered, if it was between these states. One
    /// that is seen for the first time was delivered before.
    pub(super) fn delivered(&self, old: Option<&Evacuation>, new: &Evacuation) {
        if let (Some(None), Some(latency)) = (old.map(asked_latency), asked_latency(new)) {
            self.asked.observe(latency);
        }
    }

    /// Sets the gauges: the number of Evacuations by phase, and by the queue in which they wait.
    pub(super) fn set(&self, phases: &BTreeMap<&'static str, i64>, queues: &[(&'static str, usize)]) {
        self.evacuations.clear();
        for (phase, count) in phases {
            self.evacuations.get_or_create(&[("phase", *phase)]).set(*count);
        }
        for (queue, count) in queues {
            self.queues.get_or_create(&[("queue", *queue)]).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
    }
}

fn observe(histogram: &Histogram, seconds: Option<f64>) {
    if let Some(seconds) = seconds {
        histogram.observe(seconds);
    }
}

/// From the first requester to the delivery of the first question. `None` before that, and when the first
/// responder watches: the server shows it the question at once.
fn asked_latency(evacuation: &Evacuation) -> Option<f64> {
    let status = evacuation.status.as_ref()?;
    let first = status.responders.iter().flatten().next()?.asked_time?;
    seconds_between(status.requesters.iter().map(|requester| requester.time).min()?, first)
}

/// From the last acceptance to the attempt to evict; `None` when nobody accepted.
fn evicting_latency(evacuation: &Evacuation) -> Option<f64> {
    let status = evacuation.status.as_ref()?;
    let responders = status.responders.iter().flatten();
    let accepted =
        responders.filter(|r| r.answer == Some(Answer::Accept)).filter_map(|r| r.answer_time).max()?;
    seconds_between(accepted, status.eviction.as_ref()?.last_attempt_time?)
}

fn seconds_between(start: Timestamp, end: Timestamp) -> Option<f64> {
    (end.0 - start.0).to_std().ok().map(|time| time.as_secs_f64())
}

/// The label of an attempt's outcome.
pub(super) fn outcome_label(outcome: Option<&EvictionOutcome>) -> Label {
    let word = match outcome {
        None => "unknown",
        Some(EvictionOutcome::Accepted) => "accepted",
        Some(EvictionOutcome::BudgetExhausted { .. }) => "budget_exhausted",
        Some(EvictionOutcome::MultipleBudgets { .. }) => "multiple_budgets",
        Some(EvictionOutcome::Rejected { .. }) => "rejected",
        Some(EvictionOutcome::PodGone) => "pod_gone",
        Some(EvictionOutcome::UidMismatch) => "uid_mismatch",
        Some(EvictionOutcome::NotTaken) => "not_taken",
    };
    [("outcome", word)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::EventSink;

    #[test]
    fn metrics_say_what_they_count() {
        let registry = ClusterMetrics::new(&EventSink::default());
        let metrics = NegotiationMetrics::new(&registry);
        metrics.evictions.get_or_create(&outcome_label(Some(&EvictionOutcome::Accepted))).inc();
        let evacuation = serde_json::from_value(json!({
            "spec": {"target": {"pod": {"name": "p"}}},
            "status": {
                "requesters": [{"name": "a.b/c", "user": "ann", "time": "2026-01-01T00:00:00.000000Z"}],
                "responders": [{"name": "self", "priority": 1, "timeoutSeconds": 1, "maxDelaySeconds": 1,
                                "http": {"port": 80}, "state": "Active",
                                "activeTime": "2026-01-01T00:00:00.000000Z",
                                "askedTime": "2026-01-01T00:00:00.020000Z"}],
            },
        }))
        .unwrap();
        let mut before: Evacuation = evacuation;
        let evacuation = before.clone();
        before.status.as_mut().unwrap().responders.as_mut().unwrap()[0].asked_time = None;
        metrics.delivered(Some(&before), &evacuation);
        metrics.delivered(Some(&evacuation), &evacuation);
        metrics.delivered(None, &evacuation);
        metrics.count(Transition::Refused, &evacuation);
        metrics.set(&[("Asking", 3)].into(), &[("budget", 2)]);
        let text = registry.text();
        for line in [
            "evacuation_controller_evictions_total{outcome=\"accepted\"} 1",
            "evacuation_controller_answers_total{answer=\"Refused\"} 1",
            "evacuation_controller_evacuations{phase=\"Asking\"} 3",
            "evacuation_controller_queue_length{queue=\"budget\"} 2",
            "evacuation_controller_asked_latency_seconds_bucket{le=\"0.01\"} 0",
            "evacuation_controller_asked_latency_seconds_bucket{le=\"0.025\"} 1",
            "evacuation_controller_asked_latency_seconds_count 1",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} in {text}");
        }
        metrics.set(&BTreeMap::new(), &[]);
        assert!(!registry.text().contains("Asking"), "a phase that no Evacuation has any more is not shown");
    }
}
