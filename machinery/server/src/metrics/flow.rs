//! Metrics of fairness, under the names of API Priority and Fairness. A priority level is one of our
//! limits, and a flow schema is a rank of callers.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::GaugeGuard;
use crate::http::Rank;

/// Reason for which a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Too many requests wait, of all, of the flow, or of the caller.
    QueueFull,
    /// A limit is reached for which nobody waits.
    ConcurrencyLimit,
    /// It waited for as long as it may.
    TimeOut,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FlowLabels {
    priority_level: &'static str,
    flow_schema: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectedLabels {
    priority_level: &'static str,
    flow_schema: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitLabels {
    priority_level: &'static str,
    flow_schema: &'static str,
    execute: &'static str,
}

/// Metrics of all limits.
#[derive(Debug)]
pub(super) struct FlowMetrics {
    rejected: Family<RejectedLabels, Counter>,
    dispatched: Family<FlowLabels, Counter>,
    in_queue: Family<FlowLabels, Gauge>,
    waits: Family<WaitLabels, Histogram, fn() -> Histogram>,
}

impl Default for FlowMetrics {
    fn default() -> Self {
        let waits: fn() -> Histogram =
            || Histogram::new([0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0]);
        Self {
            rejected: Family::default(),
            dispatched: Family::default(),
            in_queue: Family::default(),
            waits: Family::new_with_constructor(waits),
        }
    }
}

impl FlowMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Requests that were refused";
        registry.register("apiserver_flowcontrol_rejected_requests", help, self.rejected.clone());
        let help = "Requests that were admitted";
        registry.register("apiserver_flowcontrol_dispatched_requests", help, self.dispatched.clone());
        let help = "Requests that wait for their turn";
        registry.register("apiserver_flowcontrol_current_inqueue_requests", help, self.in_queue.clone());
        let help = "Time for which requests waited for their turn, in seconds";
        registry.register("apiserver_flowcontrol_request_wait_duration_seconds", help, self.waits.clone());
    }

    /// Returns the meters of one limit. `refused` counts its refusals together.
    pub(super) fn meters(&self, priority_level: &'static str, refused: Counter) -> FlowMeters {
        let of = |flow_schema: &'static str| {
            let labels = FlowLabels { priority_level, flow_schema };
            let rejected = |reason| {
                let labels = RejectedLabels { priority_level, flow_schema, reason };
                self.rejected.get_or_create(&labels).clone()
            };
            let wait = |execute| {
                let labels = WaitLabels { priority_level, flow_schema, execute };
                self.waits.get_or_create(&labels).clone()
            };
            RankMeters {
                queue_full: rejected("queue-full"),
                concurrency_limit: rejected("concurrency-limit"),
                time_out: rejected("time-out"),
                dispatched: self.dispatched.get_or_create(&labels).clone(),
                in_queue: self.in_queue.get_or_create(&labels).clone(),
                waited: wait("true"),
                waited_in_vain: wait("false"),
            }
        };
        FlowMeters { refused, ordinary: of("ordinary"), priority: of("priority") }
    }
}

/// Meters of one limit.
#[derive(Debug)]
pub(crate) struct FlowMeters {
    refused: Counter,
    ordinary: RankMeters,
    priority: RankMeters,
}

#[derive(Debug)]
struct RankMeters {
    queue_full: Counter,
    concurrency_limit: Counter,
    time_out: Counter,
    dispatched: Counter,
    in_queue: Gauge,
    waited: Histogram,
    waited_in_vain: Histogram,
}

impl FlowMeters {
    fn of(&self, rank: Rank) -> &RankMeters {
        if rank == Rank::Priority { &self.priority } else { &self.ordinary }
    }

    /// Counts an admission.
    pub(crate) fn dispatched(&self, rank: Rank) {
        self.of(rank).dispatched.inc();
    }

    /// Counts a refusal.
    pub(crate) fn refused(&self, rank: Rank, refusal: Refusal) {
        self.refused.inc();
        let meters = self.of(rank);
        match refusal {
            Refusal::QueueFull => meters.queue_full.inc(),
            Refusal::ConcurrencyLimit => meters.concurrency_limit.inc(),
            Refusal::TimeOut => meters.time_out.inc(),
        };
    }

    /// Counts a request as waiting until the result is dropped.
    pub(crate) fn in_queue(&self, rank: Rank) -> GaugeGuard {
        GaugeGuard::new(self.of(rank).in_queue.clone())
    }

    /// Observes a wait, and whether the request was admitted after it.
    pub(crate) fn waited(&self, rank: Rank, admitted: bool, time: Duration) {
        let meters = self.of(rank);
        let histogram = if admitted { &meters.waited } else { &meters.waited_in_vain };
        histogram.observe(time.as_secs_f64());
    }
}
