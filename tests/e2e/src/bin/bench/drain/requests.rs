//! The requests of a drain, from kube-apiserver's audit log.

use std::collections::BTreeMap;

use controlplane::AuditEvent;

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

/// Returns true for a call that evicts a pod.
pub(super) fn is_eviction(event: &AuditEvent) -> bool {
    event.resource() == "pods" && event.subresource() == "eviction"
}

/// Returns the number of evictions that succeeded.
pub(super) fn evicted(log: &[AuditEvent]) -> usize {
    log.iter().filter(|event| is_eviction(event) && event.code() == 201).count()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(verb: &str, resource: &str, rest: &Value) -> AuditEvent {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let mut event = json!({
            "verb": verb, "userAgent": "kubectl/v1", "stage": "ResponseComplete",
            "objectRef": {"resource": resource, "subresource": subresource},
        });
        event.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        event.into()
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
}
