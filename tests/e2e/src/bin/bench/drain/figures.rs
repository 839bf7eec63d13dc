//! The rows of a case, beside those of kubectl drain.

use std::collections::BTreeSet;

use super::{
    case::{Drained, count},
    processes::Part,
};
use crate::report::{Aim, Row};

/// The peer.
pub(super) const PEER: &str = "kubectl drain";
/// Number of requests of a kind a pod from which on the kind has a row.
const WORTH_A_ROW: f64 = 0.05;
/// The kind of the requests that evict.
const EVICTIONS: &str = "create pods/eviction";

/// The same nodes drained by both tools.
#[derive(Debug)]
pub(super) struct Pair {
    /// Name of the benchmark.
    pub(super) bench: &'static str,
    /// The nodes, the pods and the budget in words.
    pub(super) case: String,
    /// Figures of the drain by NodeEvacuation.
    pub(super) ours: Drained,
    /// Figures of the drain by the peer.
    pub(super) theirs: Drained,
}

impl Pair {
    /// Returns one figure of ours.
    fn alone(&self, what: &str, unit: &'static str, value: f64) -> Row {
        Row::new(self.bench, format!("{what}, {}", self.case), unit, value)
    }

    /// Returns one figure of both.
    fn row(&self, what: &str, unit: &'static str, of: impl Fn(&Drained) -> f64) -> Row {
        self.alone(what, unit, of(&self.ours)).beside(PEER, of(&self.theirs))
    }

    /// Returns the figures of every case: times, calls, requests, failures, CPU and memory.
    pub(super) fn rows(&self, floor: f64, time: Aim) -> Vec<Row> {
        let calls = |drained: &Drained| drained.a_pod(count(drained.requests.of_kind(EVICTIONS)));
        let requests = |drained: &Drained| drained.a_pod(count(drained.requests.all()));
        let mut rows = vec![
            self.row(&format!("wall time (floor {floor:.1} s)"), "s", |drained| drained.seconds).aim(time),
            self.row("eviction calls a pod", "calls", calls).aim(Aim::Value(1.02)),
            self.row("moves a pod", "moves", |drained| drained.a_pod(drained.moves)).aim(Aim::Value(1.0)),
            self.row("failed drains", "drains", |drained| drained.failed).aim(Aim::Value(0.0)),
            self.row("requests a pod", "requests", requests).aim(Aim::Ratio(1.0)),
        ];
        rows.extend(self.rows_of_times());
        rows.extend(self.rows_of_requests());
        rows.extend(self.rows_of_processes());
        rows
    }

    /// Returns the figures of a budget: the time in which it is used up, the collisions of its writes, and
    /// the time from the moment at which it allows evictions again to the next call of one. A budget that is
    /// never used up has no such times.
    pub(super) fn rows_of_the_budget(&self) -> Vec<Row> {
        let collisions = |drained: &Drained| drained.a_pod(count(drained.timeline.collisions));
        let mut rows = vec![
            self.row("collisions of writes of the budget a pod", "collisions", collisions),
            self.row("time in which the budget is used up", "s", |drained| drained.timeline.used_up),
        ];
        let (ours, theirs) = (&self.ours.timeline.freed_to_call, &self.theirs.timeline.freed_to_call);
        let (freed, freed_for_peer) = (ours.len(), theirs.len());
        eprintln!("{}: the budget freed {freed} times, for {PEER} {freed_for_peer} times", self.case);
        for percent in if freed > 0 { &[50, 99][..] } else { &[] } {
            let what = format!("from 'budget frees' to the next eviction, p{percent}");
            let row = self.alone(&what, "ms", ours.quantile(*percent)).aim(Aim::Value(100.0));
            rows.push(if freed_for_peer > 0 { row.beside(PEER, theirs.quantile(*percent)) } else { row });
        }
        rows
    }

    /// Returns the times that bound a drain: those of the calls, and those of the pods.
    fn rows_of_times(&self) -> Vec<Row> {
        let call = |percent| {
            let what = format!("duration of an eviction call, p{percent}");
            self.row(&what, "ms", move |drained| drained.timeline.calls.quantile(percent))
        };
        let end = |percent| {
            let what = format!("from an eviction to the end of the pod, p{percent}");
            self.row(&what, "ms", move |drained| drained.timeline.ends.quantile(percent))
        };
        vec![call(50), call(99), end(50), end(99)]
    }

    /// Returns one row for each kind of request that one of the tools often makes, the most frequent first.
    fn rows_of_requests(&self) -> Vec<Row> {
        let a_pod = |drained: &Drained, kind: &str| drained.a_pod(count(drained.requests.of_kind(kind)));
        let kinds: BTreeSet<&str> = self.ours.requests.kinds().chain(self.theirs.requests.kinds()).collect();
        let most = |kind: &str| a_pod(&self.ours, kind).max(a_pod(&self.theirs, kind));
        let mut kinds: Vec<&str> = kinds.into_iter().filter(|kind| most(kind) >= WORTH_A_ROW).collect();
        kinds.sort_by(|one, other| most(other).total_cmp(&most(one)));
        let row = |kind: &str| self.row(&format!("requests a pod: {kind}"), "requests", |d| a_pod(d, kind));
        let rest = |drained: &Drained| {
            let counted: f64 = kinds.iter().map(|kind| a_pod(drained, kind)).sum();
            drained.a_pod(count(drained.requests.all())) - counted
        };
        let mut rows: Vec<Row> = kinds.iter().map(|kind| row(kind)).collect();
        rows.push(self.row("requests a pod: all other kinds", "requests", rest));
        rows
    }

    fn rows_of_processes(&self) -> Vec<Row> {
        let cpu = |part: Part| {
            self.row(&format!("CPU of {}", part.words()), "s", move |drained| drained.costs.of(part).cpu)
        };
        let memory = |part: Part| {
            let what = format!("peak memory of {}", part.words());
            self.row(&what, "MiB", move |drained| drained.costs.of(part).memory)
        };
        let all = self.row("CPU of all of these", "s", |drained| drained.costs.cpu(&Part::ALL));
        Part::ALL.map(cpu).into_iter().chain([all]).chain(Part::ALL.map(memory)).collect()
    }
}
