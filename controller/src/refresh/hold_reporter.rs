//! Events and metrics about the pods that are held back.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
};

use k8s_openapi::api::core::v1::Pod;
use prometheus_client::metrics::{counter::Counter, family::Family};

use super::decide::Decision;
use crate::cluster::{Cluster, EventSink, Label, Notice, lock};

/// Reason in metrics for a pod whose annotation, or whose namespace's, cannot be read.
const UNREADABLE: &str = "unreadable";

/// Emits an Event and counts when a pod's hold reason changes.
pub(super) struct HoldReporter {
    events: EventSink,
    held_back: Family<Label, Counter>,
    /// Last reported reason, by namespace and by the pod's UID.
    reported: Mutex<HashMap<String, HashMap<String, &'static str>>>,
}

impl HoldReporter {
    /// Returns a reporter that has reported nothing yet.
    pub(super) fn new(cluster: &Cluster) -> Self {
        let help = "Pods in a crash loop that were held back, once for each reason in turn";
        Self {
            events: cluster.events.clone(),
            held_back: cluster.metrics.counters("refreshes_held_back", help),
            reported: Mutex::default(),
        }
    }

    /// Emits an Event for each pod whose hold reason is not the one that was reported last.
    pub(super) fn report(&self, namespace: &str, decision: &Decision) {
        let uid = |pod: &Pod| pod.metadata.uid.clone().unwrap_or_default();
        let held = decision.held.iter().map(|(pod, hold)| (uid(pod), hold.as_str()));
        let unreadable = decision.unreadable.iter().map(|(pod, _)| (uid(pod), UNREADABLE));
        let changed = self.changed(namespace, held.chain(unreadable).collect());
        for (pod, hold) in decision.held.iter().filter(|(pod, _)| changed.contains(&uid(pod))) {
            self.count(hold.as_str());
            if let Some(reason) = hold.event_reason() {
                let note = format!("in a crash loop, and left alone: {hold}");
                self.events.send_about_pod(pod, Notice::normal(reason, note));
            }
        }
        for (pod, problem) in decision.unreadable.iter().filter(|(pod, _)| changed.contains(&uid(pod))) {
            self.count(UNREADABLE);
            let note = format!("the pod is not refreshed: {problem}");
            self.events.send_about_pod(pod, Notice::warning("UnreadableRefresh", note));
        }
    }

    /// Records the reasons of a namespace's pods, by UID. Returns the UIDs whose reason changed.
    fn changed(&self, namespace: &str, now: HashMap<String, &'static str>) -> HashSet<String> {
        let mut reported = lock(&self.reported);
        let before = reported.remove(namespace).unwrap_or_default();
        let changed = now
            .iter()
            .filter(|(uid, reason)| before.get(*uid) != Some(*reason))
            .map(|(uid, _)| uid.clone())
            .collect();
        if !now.is_empty() {
            reported.insert(namespace.to_owned(), now);
        }
        changed
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        lock(&self.reported).clear();
    }

    fn count(&self, reason: &'static str) {
        self.held_back.get_or_create(&[("reason", reason)]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::testing::cluster_without_api;

    #[tokio::test]
    async fn a_hold_reason_is_reported_when_it_changes() {
        let reporter = HoldReporter::new(&cluster_without_api());
        let count = |reason| reporter.changed("ns", [("u".to_owned(), reason)].into()).len();
        assert_eq!(count("backoff"), 1);
        assert_eq!(count("backoff"), 0);
        assert_eq!(count("new_pod"), 1);
        assert_eq!(reporter.changed("ns", HashMap::new()).len(), 0);
        assert_eq!(count("new_pod"), 1);
        reporter.clear();
        assert_eq!(count("new_pod"), 1);
    }
}
