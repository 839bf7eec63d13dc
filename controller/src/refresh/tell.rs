//! Telling of the pods that are not asked: an Event and a count, once for each reason.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::Pod;

use super::{Refresher, decide::Decision};
use crate::{controller::Controller, events::Notice};

/// What is told of a pod whose annotation, or whose namespace's, cannot be read.
const UNREADABLE: &str = "unreadable";

impl Controller {
    /// Tells of the pods that are not asked what was not told of them last.
    pub(super) fn tell_refreshes(&self, refresher: &Refresher, namespace: &str, decision: &Decision) {
        let uid = |pod: &Pod| pod.metadata.uid.clone().unwrap_or_default();
        let held = decision.held.iter().map(|(pod, hold)| (uid(pod), hold.as_str()));
        let unreadable = decision.unreadable.iter().map(|(pod, _)| (uid(pod), UNREADABLE));
        let now: HashMap<_, _> = held.chain(unreadable).collect();
        let news = refresher.news(namespace, now);
        for (pod, hold) in decision.held.iter().filter(|(pod, _)| news.contains(&uid(pod))) {
            self.count_held_back(hold.as_str());
            if let Some(reason) = hold.event_reason() {
                self.notify_pod(
                    pod,
                    Notice::normal(reason, format!("in a crash loop, and left alone: {hold}")),
                );
            }
        }
        for (pod, what) in decision.unreadable.iter().filter(|(pod, _)| news.contains(&uid(pod))) {
            self.count_held_back(UNREADABLE);
            self.notify_pod(
                pod,
                Notice::warning("UnreadableRefresh", format!("the pod is not refreshed: {what}")),
            );
        }
    }

    fn count_held_back(&self, reason: &'static str) {
        self.metrics.refreshes_held_back.get_or_create(&[("reason", reason)]).inc();
    }
}
