//! The course of a drain, from kube-apiserver's audit log: what the evictions wait for.

use std::collections::HashMap;

use controlplane::AuditEvent;
use k8s_openapi::jiff::Timestamp;

use super::requests::is_eviction;
use crate::samples::Samples;

/// Times of the evictions, of the ends of their pods, and of the writes of the budget.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// Durations of the eviction calls.
    pub(super) calls: Samples,
    /// Times from the answer to an eviction to the end of its pod.
    pub(super) ends: Samples,
    /// Times from the write that lets the budget allow evictions again to the next call of one.
    ///
    /// Left out are writes while an eviction is under way that then succeeds, for that one takes what is
    /// free.
    pub(super) freed_to_call: Samples,
    /// Time in seconds before the last eviction in which the budget allowed none.
    pub(super) used_up: f64,
    /// Number of writes of the budget that were refused because another write came first. They are those of
    /// kube-apiserver, which takes an eviction off the status and then sleeps 0.5 s, and those of the
    /// disruption controller.
    pub(super) collisions: usize,
}

/// An eviction call.
#[derive(Clone, Debug)]
struct Call {
    received: Timestamp,
    answered: Timestamp,
    succeeded: bool,
    pod: String,
}

/// A write of the budget's status. The log has those of the disruption controller, and those of
/// kube-apiserver for evictions.
#[derive(Clone, Copy, Debug)]
struct Write {
    received: Timestamp,
    answered: Timestamp,
    allowed: i64,
}

impl Timeline {
    /// Returns that of the evictions in a namespace with at most one budget.
    pub(super) fn of(log: &[AuditEvent], namespace: &str) -> Self {
        let log: Vec<&AuditEvent> = log.iter().filter(|event| event.namespace() == namespace).collect();
        let (calls, writes) = (calls(&log), writes(&log));
        let mut timeline = Self {
            freed_to_call: freed_to_call(&calls, &writes),
            used_up: used_up(&calls, &writes),
            collisions: log.iter().filter(|event| is_of_a_budget(event) && event.code() == 409).count(),
            ..Self::default()
        };
        for call in &calls {
            timeline.calls.add(call.received, call.answered);
        }
        let evicted: HashMap<&str, Timestamp> =
            calls.iter().filter(|call| call.succeeded).map(|call| (&*call.pod, call.answered)).collect();
        for end in log.iter().filter(|event| is_end(event)) {
            if let (Some(evicted), Some(gone)) = (evicted.get(end.name()), end.answered()) {
                timeline.ends.add(*evicted, gone);
            }
        }
        timeline
    }
}

/// The eviction calls, in the order in which they arrived.
fn calls(log: &[&AuditEvent]) -> Vec<Call> {
    let calls = log.iter().filter(|event| is_eviction(event)).filter_map(|event| {
        let (received, answered) = (event.received()?, event.answered()?);
        Some(Call { received, answered, succeeded: event.code() == 201, pod: event.name().to_owned() })
    });
    let mut calls: Vec<Call> = calls.collect();
    calls.sort_by_key(|call| call.received);
    calls
}

/// The writes of the budget that succeeded, in their order.
fn writes(log: &[&AuditEvent]) -> Vec<Write> {
    let writes = log.iter().filter(|event| is_of_a_budget(event) && event.code() == 200);
    let writes = writes.filter_map(|event| {
        let (received, answered) = (event.received()?, event.answered()?);
        Some(Write { received, answered, allowed: event.disruptions_allowed()? })
    });
    let mut writes: Vec<Write> = writes.collect();
    writes.sort_by_key(|write| write.answered);
    writes
}

fn is_of_a_budget(event: &AuditEvent) -> bool {
    event.resource() == "poddisruptionbudgets" && event.subresource() == "status"
}

/// Returns true for the deletion with which the stand-in for the kubelets ends a pod.
fn is_end(event: &AuditEvent) -> bool {
    let of_a_pod = event.resource() == "pods" && event.subresource().is_empty();
    of_a_pod && event.verb() == "delete" && event.user() == "kwok" && event.code() == 200
}

fn freed_to_call(calls: &[Call], writes: &[Write]) -> Samples {
    let mut samples = Samples::default();
    let pairs = writes.iter().zip(writes.iter().skip(1));
    for (_, freed) in pairs.filter(|(old, new)| old.allowed == 0 && new.allowed > 0) {
        let under_way =
            |call: &Call| call.received < freed.received && call.answered > freed.received && call.succeeded;
        let next = calls.iter().find(|call| call.received >= freed.received);
        if let Some(next) = next.filter(|_| !calls.iter().any(under_way)) {
            // The watch event can be sent before the answer to the write: such a call came at once.
            samples.add(freed.answered.min(next.received), next.received);
        }
    }
    samples
}

fn used_up(calls: &[Call], writes: &[Write]) -> f64 {
    let Some(last) = calls.last().map(|call| call.received) else { return 0.0 };
    let pairs = writes.iter().zip(writes.iter().skip(1).map(|write| write.answered).chain([last]));
    let none = pairs.filter(|(write, _)| write.allowed == 0 && write.answered < last);
    none.map(|(write, until)| until.min(last).duration_since(write.answered).as_secs_f64()).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(kind: (&str, &str, &str), [from, to]: [u16; 2], code: u16, object: &Value) -> AuditEvent {
        let (verb, resource, subresource) = kind;
        let time = |milliseconds| format!("2026-11-20T10:00:00.{milliseconds:03}Z");
        let reference =
            json!({"resource": resource, "subresource": subresource, "namespace": "shop", "name": "web"});
        json!({
            "verb": verb, "objectRef": reference, "user": {"username": "kwok"}, "requestObject": object,
            "requestReceivedTimestamp": time(from), "stageTimestamp": time(to),
            "responseStatus": {"code": code},
        })
        .into()
    }

    fn write(times: [u16; 2], code: u16, allowed: i64) -> AuditEvent {
        let object = json!({"status": {"disruptionsAllowed": allowed}});
        event(("update", "poddisruptionbudgets", "status"), times, code, &object)
    }

    fn call(times: [u16; 2], code: u16) -> AuditEvent {
        event(("create", "pods", "eviction"), times, code, &Value::Null)
    }

    #[test]
    fn a_call_counts_from_the_write_that_frees_the_budget() {
        let log = [
            write([10, 12], 200, 0),
            call([20, 22], 429),
            write([30, 32], 200, 2),
            write([33, 34], 409, 1),
            call([37, 40], 201),
            write([50, 52], 200, 1),
        ];
        let timeline = Timeline::of(&log, "shop");
        assert_eq!((timeline.freed_to_call.len(), timeline.calls.len(), timeline.collisions), (1, 2, 1));
        assert!((timeline.freed_to_call.quantile(50) - 5.0).abs() < 0.001);
        assert!((timeline.used_up - 0.020).abs() < 0.000_001, "from 12 to 32 ms");
        assert_eq!(Timeline::of(&log, "other").calls.len(), 0);
    }

    #[test]
    fn a_write_does_not_count_while_an_eviction_takes_what_is_free() {
        let log =
            [write([10, 12], 200, 0), call([20, 35], 201), write([30, 32], 200, 1), call([60, 61], 201)];
        assert_eq!(Timeline::of(&log, "shop").freed_to_call.len(), 0);
    }

    #[test]
    fn a_pod_ends_when_the_stand_in_for_its_kubelet_deletes_it() {
        let log = [call([10, 20], 201), event(("delete", "pods", ""), [120, 130], 200, &Value::Null)];
        let ends = Timeline::of(&log, "shop").ends;
        assert!(ends.len() == 1 && (ends.quantile(50) - 110.0).abs() < 0.001);
    }
}
