//! Events on pods about calls that passed.

use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
pub(crate) use machinery_events::{LAST_EVENTS, publish_events};
use machinery_events::{Notice, Reporter};
use prometheus_client::metrics::counter::Counter;

/// Name of the reporting component.
const COMPONENT: &str = "evacuation-gateway";

/// Takes Events and never waits. A namespace has a share of those that wait, so that a flood of calls in one
/// does not drop the Events of others.
#[derive(Clone, Debug)]
pub(crate) struct EventSink(machinery_events::EventSink);

impl EventSink {
    /// Returns a sink that counts the Events that it drops.
    pub(crate) fn new(dropped: Counter) -> Self {
        Self(machinery_events::EventSink::counting(dropped))
    }

    /// Returns the sink as the publisher takes it.
    pub(crate) fn published(&self) -> machinery_events::EventSink {
        self.0.clone()
    }

    /// Emits a warning on a pod. The note must not hold times, so that equal Events are one series.
    pub(crate) fn warn(&self, pod: &Pod, reason: &'static str, note: String) {
        self.0.send(pod.object_ref(&()), None, Notice::warning(reason, note));
    }
}

/// Returns the gateway as the reporter of its Events.
pub(crate) fn reporter() -> Reporter {
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let instance = host.unwrap_or_else(|| COMPONENT.to_owned());
    Reporter { controller: COMPONENT, instance, action: "Admit" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// # Attack
    ///
    /// - Attacker: a tenant whose calls for many pods pass, such as forced deletions
    /// - Act: fills the gateway's queue of Events, so that those of other tenants are dropped
    /// - Promise: 8
    #[test]
    fn a_flood_of_events_in_one_namespace_leaves_room_for_those_of_others() {
        let dropped = Counter::default();
        let events = EventSink::new(dropped.clone());
        let pod = |namespace: &str, number: usize| {
            let name = format!("p-{number}");
            let metadata = serde_json::json!({"name": name, "namespace": namespace, "uid": name});
            serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap()
        };
        for number in 0..10_000 {
            events.warn(&pod("noisy", number), "DeletionForced", "mallory forced the deletion".to_owned());
        }
        let of_noisy = dropped.get();
        assert!(of_noisy > 0, "the flood fills its share");
        for number in 0..100 {
            events.warn(&pod("quiet", number), "PassedUnasked", "alice could evict the pod".to_owned());
        }
        assert_eq!(dropped.get(), of_noisy, "nothing of the other namespace is dropped");
    }
}
