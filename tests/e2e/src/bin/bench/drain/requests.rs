//! The requests of a drain, from kube-apiserver's audit log.

use std::collections::BTreeMap;

use controlplane::AuditEvent;
use k8s_openapi::jiff::Timestamp;

use crate::samples::Samples;

/// Number of requests of each kind, such as `create pods/eviction`.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests(BTreeMap<String, usize>);

impl Requests {
    /// Counts the requests of kubectl, the controller and the API server. Those of the cluster's own
    /// controllers are the same with any tool.
    pub(super) fn of(log: &[AuditEvent]) -> Self {
        let mut kinds = BTreeMap::new();
        for event in log.iter().filter(|event| is_of_the_drain(event)) {
            *kinds.entry(kind(event)).or_default() += 1;
        }
        Self(kinds)
    }

    /// Returns the number of all.
    pub(super) fn all(&self) -> usize {
        self.0.values().sum()
    }

    /// Returns the number of a kind.
    pub(super) fn of_kind(&self, kind: &str) -> usize {
        self.0.get(kind).copied().unwrap_or_default()
    }

    /// Returns the kinds.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

fn is_of_the_drain(event: &AuditEvent) -> bool {
    let of_ours = event.user().starts_with("system:serviceaccount:evacuation-system:");
    // The log has a line for the begin of a watch, and one for its end.
    let counts = event.verb() != "watch" || event.stage() == "ResponseStarted";
    counts && (of_ours || event.user_agent().starts_with("kubectl"))
}

fn kind(event: &AuditEvent) -> String {
    match (event.resource(), event.subresource()) {
        ("", _) => format!("{} discovery", event.verb()),
        (resource, "") => format!("{} {resource}", event.verb()),
        (resource, subresource) => format!("{} {resource}/{subresource}", event.verb()),
    }
}

fn is_eviction(event: &AuditEvent) -> bool {
    event.resource() == "pods" && event.subresource() == "eviction"
}

/// Returns the number of evictions that succeeded.
pub(super) fn evicted(log: &[AuditEvent]) -> usize {
    log.iter().filter(|event| is_eviction(event) && event.code() == 201).count()
}

/// Returns the number of writes of budgets that were refused because another write came first.
///
/// They are those of kube-apiserver, which takes an eviction off a budget's status and then sleeps 0.5 s, and
/// those of the disruption controller.
pub(super) fn collisions(log: &[AuditEvent]) -> usize {
    log.iter().filter(|event| is_of_a_budget(event) && event.code() == 409).count()
}

fn is_of_a_budget(event: &AuditEvent) -> bool {
    event.resource() == "poddisruptionbudgets" && event.subresource() == "status"
}

/// Returns the times from the write that lets a budget allow evictions again to the next call of an eviction.
///
/// The log has every write of a budget's status, those of kube-apiserver for evictions, too. Left out are
/// writes while an eviction is under way that then succeeds, for that one takes what is free.
pub(super) fn freed_to_eviction(log: &[AuditEvent], namespace: &str) -> Samples {
    let log = || log.iter().filter(|event| event.namespace() == namespace);
    let times = |event: &AuditEvent| Some((event.received()?, event.answered()?));
    let mut calls: Vec<(Timestamp, Timestamp, u16)> = log()
        .filter(|event| is_eviction(event))
        .filter_map(|event| times(event).map(|(received, answered)| (received, answered, event.code())))
        .collect();
    calls.sort_unstable();
    let mut writes: Vec<(Timestamp, Timestamp, i64)> = log()
        .filter(|event| is_of_a_budget(event) && event.code() == 200)
        .filter_map(|event| times(event).zip(event.disruptions_allowed()))
        .map(|((received, answered), allowed)| (received, answered, allowed))
        .collect();
    writes.sort_unstable();

    let mut samples = Samples::default();
    let frees = writes.iter().zip(writes.iter().skip(1)).filter(|(old, new)| old.2 == 0 && new.2 > 0);
    for (_, (received, answered, _)) in frees {
        let takes_it =
            |call: &&(Timestamp, Timestamp, u16)| call.0 < *received && call.1 > *received && call.2 == 201;
        let next = calls.iter().find(|call| call.0 >= *received);
        if let (None, Some((called, ..))) = (calls.iter().find(takes_it), next) {
            // The watch event can be sent before the answer to the write: such a call came at once.
            samples.add(*answered.min(called), *called);
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(verb: &str, resource: &str, rest: &serde_json::Value) -> AuditEvent {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let mut event = json!({
            "verb": verb, "userAgent": "kubectl/v1", "stage": "ResponseComplete",
            "objectRef": {"resource": resource, "subresource": subresource, "namespace": "shop"},
        });
        event.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        event.into()
    }

    fn at(from: u16, to: u16, code: u16) -> serde_json::Value {
        let time = |milliseconds| format!("2026-11-20T10:00:00.{milliseconds:03}Z");
        json!({"requestReceivedTimestamp": time(from), "stageTimestamp": time(to),
               "responseStatus": {"code": code}})
    }

    fn write(from: u16, to: u16, allowed: i64) -> AuditEvent {
        let mut rest = at(from, to, 200);
        rest["requestObject"] = json!({"status": {"disruptionsAllowed": allowed}});
        event("update", "poddisruptionbudgets/status", &rest)
    }

    fn call(from: u16, to: u16, code: u16) -> AuditEvent {
        event("create", "pods/eviction", &at(from, to, code))
    }

    #[test]
    fn requests_count_by_kind_and_a_watch_counts_once() {
        let log = [
            event("create", "pods/eviction", &json!({"responseStatus": {"code": 201}})),
            event("create", "pods/eviction", &json!({"responseStatus": {"code": 429}})),
            event("watch", "pods", &json!({"stage": "ResponseStarted"})),
            event("watch", "pods", &json!({})),
            event("get", "", &json!({})),
            event("get", "pods", &json!({"userAgent": "kube-scheduler"})),
        ];
        let requests = Requests::of(&log);
        assert_eq!((requests.all(), requests.of_kind("create pods/eviction"), evicted(&log)), (4, 2, 1));
        assert_eq!(
            requests.kinds().collect::<Vec<_>>(),
            ["create pods/eviction", "get discovery", "watch pods"]
        );
    }

    #[test]
    fn the_time_counts_from_the_write_that_frees_the_budget() {
        let log =
            [write(10, 12, 0), call(20, 22, 429), write(30, 32, 2), call(37, 40, 201), write(50, 52, 1)];
        let samples = freed_to_eviction(&log, "shop");
        assert_eq!(samples.len(), 1);
        assert!((samples.quantile(50) - 5.0).abs() < 0.001);
        assert_eq!(freed_to_eviction(&log, "other").len(), 0);
    }

    #[test]
    fn refused_writes_of_budgets_are_collisions() {
        let log = [
            event("update", "poddisruptionbudgets/status", &at(10, 12, 409)),
            write(12, 14, 1),
            call(20, 22, 409),
        ];
        assert_eq!(collisions(&log), 1);
    }

    #[test]
    fn a_write_does_not_count_while_an_eviction_takes_what_is_free() {
        let log = [write(10, 12, 0), call(20, 35, 201), write(30, 32, 1), call(60, 61, 201)];
        assert_eq!(freed_to_eviction(&log, "shop").len(), 0);
    }
}
