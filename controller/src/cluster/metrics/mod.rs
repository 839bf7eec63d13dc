//! Metrics, and the listener that serves them with the probes.

mod listener;

use std::{collections::BTreeMap, sync::atomic::AtomicU64};

use evacuation_api::{Answer, Evacuation, Timestamp};
use evacuation_protocol::EvictionOutcome;
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

pub(crate) use listener::{Probed, serve_metrics};

use crate::events::Notice;

/// The upper bounds of latencies, in seconds: from what is aimed at, 50 ms, to the timeouts.
const LATENCY_BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// One label: its name, and a word of a closed set.
pub(crate) type Label = [(&'static str, &'static str); 1];

/// What is only counted when somebody asks.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Evacuations by phase.
    pub(crate) phases: BTreeMap<&'static str, i64>,
    /// Evacuations that wait, by what for.
    pub(crate) queues: Vec<(&'static str, usize)>,
}

/// What is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// Evacuations by phase.
    pub(crate) evacuations: Family<Label, Gauge>,
    /// Answers, by answer, and silences.
    pub(crate) answers: Family<Label, Counter>,
    /// Attempts to evict or delete, by outcome.
    pub(crate) evictions: Family<Label, Counter>,
    /// Evacuations of pods in a crash loop that this process asked for, by how they ended.
    pub(crate) refreshes: Family<Label, Counter>,
    /// Pods in a crash loop that were not asked, by what held them back.
    pub(crate) refreshes_held_back: Family<Label, Counter>,
    /// Replacements made before an eviction, by what became of them.
    pub(crate) replacements: Family<Label, Counter>,
    /// Questions posted, by outcome.
    pub(crate) pushes: Family<Label, Counter>,
    /// From the first requester to the first question.
    pub(crate) asked: Histogram,
    /// From the last acceptance to the attempt to evict.
    pub(crate) evicting: Histogram,
    /// Evacuations that wait for a worker, for their time, for a budget.
    pub(crate) queues: Family<Label, Gauge>,
    /// 1 while this process leads.
    pub(crate) leader: Gauge,
    /// When the API came back after the last outage, in seconds since 1970.
    pub(crate) recovered: Gauge<f64, AtomicU64>,
    /// Reconciliations that failed.
    pub(crate) failures: Counter,
    /// Events that were not published, because too many waited.
    pub(crate) events_dropped: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("evacuation_controller");
        let latency = || Histogram::new(LATENCY_BOUNDS);
        let metrics = Self {
            evacuations: Family::default(),
            answers: Family::default(),
            evictions: Family::default(),
            refreshes: Family::default(),
            refreshes_held_back: Family::default(),
            replacements: Family::default(),
            pushes: Family::default(),
            asked: latency(),
            evicting: latency(),
            queues: Family::default(),
            leader: Gauge::default(),
            recovered: Gauge::default(),
            failures: Counter::default(),
            events_dropped: Counter::default(),
            registry: Registry::default(),
        };
        registry.register("evacuations", "Evacuations by phase", metrics.evacuations.clone());
        registry.register("answers", "Answers of responders, and silences", metrics.answers.clone());
        registry.register(
            "evictions",
            "Attempts to evict or delete a pod by outcome",
            metrics.evictions.clone(),
        );
        registry.register(
            "refreshes",
            "Evacuations of pods in a crash loop by how they ended",
            metrics.refreshes.clone(),
        );
        registry.register(
            "refreshes_held_back",
            "Pods in a crash loop that were held back, once for each reason in turn",
            metrics.refreshes_held_back.clone(),
        );
        registry.register(
            "replacements",
            "Pods released for a replacement to be ready before they go, by what became of it",
            metrics.replacements.clone(),
        );
        registry.register("pushes", "Questions posted to apps by outcome", metrics.pushes.clone());
        let help = "Time from the first requester to the first question";
        registry.register_with_unit("asked_latency", help, Unit::Seconds, metrics.asked.clone());
        let help = "Time from the last acceptance to the attempt to evict";
        registry.register_with_unit("evicting_latency", help, Unit::Seconds, metrics.evicting.clone());
        registry.register("queue_length", "Evacuations that wait, by what for", metrics.queues.clone());
        registry.register("leader", "Whether this process leads", metrics.leader.clone());
        let help = "When the API came back after the last outage that was noticed, as seconds since 1970";
        registry.register_with_unit("api_recovered", help, Unit::Seconds, metrics.recovered.clone());
        registry.register("failures", "Reconciliations that failed", metrics.failures.clone());
        registry.register(
            "events_dropped",
            "Events that were not published because too many waited",
            metrics.events_dropped.clone(),
        );
        Self { registry, ..metrics }
    }
}

impl Metrics {
    /// Counts what a notice tells of an Evacuation.
    pub(crate) fn count(&self, notice: &Notice, evacuation: &Evacuation) {
        match notice.reason {
            "Accepted" | "Delayed" | "Refused" | "Silent" => {
                self.answers.get_or_create(&[("answer", notice.reason)]).inc();
            }
            "Asked" => observe(&self.asked, asked_latency(evacuation)),
            "Evicting" => observe(&self.evicting, evicting_latency(evacuation)),
            _ => {}
        }
    }

    /// The metrics as OpenMetrics text.
    pub(crate) fn text(&self, seen: &Seen) -> String {
        self.evacuations.clear();
        for (phase, count) in &seen.phases {
            self.evacuations.get_or_create(&[("phase", *phase)]).set(*count);
        }
        for (queue, count) in &seen.queues {
            self.queues.get_or_create(&[("queue", *queue)]).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn observe(histogram: &Histogram, seconds: Option<f64>) {
    if let Some(seconds) = seconds {
        histogram.observe(seconds);
    }
}

/// From the first requester to the first question; `None` for a later question.
fn asked_latency(evacuation: &Evacuation) -> Option<f64> {
    let status = evacuation.status.as_ref()?;
    let mut asked = status.responders.iter().flatten().filter_map(|responder| responder.active_time);
    let (first, None) = (asked.next()?, asked.next()) else {
        return None;
    };
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
pub(crate) fn outcome_label(outcome: Option<&EvictionOutcome>) -> Label {
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

    #[test]
    fn metrics_say_what_they_count() {
        let metrics = Metrics::default();
        metrics.evictions.get_or_create(&outcome_label(Some(&EvictionOutcome::Accepted))).inc();
        metrics.refreshes.get_or_create(&[("outcome", "refused")]).inc();
        metrics.refreshes_held_back.get_or_create(&[("reason", "backoff")]).inc();
        let evacuation = serde_json::from_value(json!({
            "spec": {"target": {"pod": {"name": "p"}}},
            "status": {
                "requesters": [{"name": "a.b/c", "user": "ann", "time": "2026-01-01T00:00:00.000000Z"}],
                "responders": [{"name": "self", "priority": 1, "timeoutSeconds": 1, "maxDelaySeconds": 1,
                                "state": "Active", "activeTime": "2026-01-01T00:00:00.020000Z"}],
            },
        }))
        .unwrap();
        let notice = Notice { reason: "Asked", warning: false, note: String::new() };
        metrics.count(&notice, &evacuation);
        metrics.count(&Notice { reason: "Refused", ..notice }, &evacuation);
        let seen = Seen { phases: [("Asking", 3)].into(), queues: vec![("budget", 2)] };
        let text = metrics.text(&seen);
        for line in [
            "evacuation_controller_evictions_total{outcome=\"accepted\"} 1",
            "evacuation_controller_answers_total{answer=\"Refused\"} 1",
            "evacuation_controller_evacuations{phase=\"Asking\"} 3",
            "evacuation_controller_queue_length{queue=\"budget\"} 2",
            "evacuation_controller_asked_latency_seconds_bucket{le=\"0.01\"} 0",
            "evacuation_controller_asked_latency_seconds_bucket{le=\"0.025\"} 1",
            "evacuation_controller_refreshes_total{outcome=\"refused\"} 1",
            "evacuation_controller_refreshes_held_back_total{reason=\"backoff\"} 1",
            "evacuation_controller_leader 0",
            "evacuation_controller_events_dropped_total 0",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} in {text}");
        }
        let later = metrics.text(&Seen::default());
        assert!(!later.contains("Asking"), "a phase that no Evacuation has any more is not shown");
    }
}
