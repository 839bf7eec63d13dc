//! Audit events of a pod: the answers given for it, and its evictions.

use anyhow::Context;
use controlplane::AuditEvent;
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::ResourceExt;

/// The audit log as it was when it was read.
pub(crate) struct Audit(Vec<AuditEvent>);

impl Audit {
    pub(crate) fn new(events: Vec<AuditEvent>) -> Self {
        Self(events)
    }

    /// The calls of the eviction API for a pod.
    pub(crate) fn evictions<'a>(&'a self, pod: &Pod) -> impl Iterator<Item = &'a AuditEvent> {
        self.of("pods", "eviction", pod)
    }

    /// Time at which the eviction arrived that succeeded.
    pub(crate) fn evicted(&self, pod: &Pod) -> anyhow::Result<Timestamp> {
        let taken = self.evictions(pod).find(|event| event.code() == 201);
        taken.and_then(AuditEvent::received).with_context(|| format!("{} was not evicted", pod.name_any()))
    }

    /// Time at which the pod's own first answer was recorded.
    pub(crate) fn first_answer(&self, pod: &Pod) -> anyhow::Result<Timestamp> {
        let first = self.answers(pod).next().and_then(AuditEvent::answered);
        first.with_context(|| format!("{} did not answer", pod.name_any()))
    }

    /// Time at which the pod's own last answer was recorded.
    pub(crate) fn last_answer(&self, pod: &Pod) -> anyhow::Result<Timestamp> {
        let last = self.answers(pod).last().and_then(AuditEvent::answered);
        last.with_context(|| format!("{} did not answer", pod.name_any()))
    }

    /// Time of the node's last report on a pod, with which it was ready.
    pub(crate) fn last_status(&self, pod: &Pod) -> Option<Timestamp> {
        let reports = self.of("pods", "status", pod);
        let report = reports.filter(|event| event.user().contains("kwok")).last();
        report.and_then(AuditEvent::received)
    }

    /// Time at which a budget was last changed by hand.
    pub(crate) fn budget_changed(&self, name: &str, namespace: &str) -> anyhow::Result<Timestamp> {
        let mut patches = self.0.iter().filter(|event| {
            event.resource() == "poddisruptionbudgets"
                && event.subresource().is_empty()
                && (event.name(), event.namespace(), event.verb()) == (name, namespace, "patch")
        });
        let last = patches.next_back().and_then(AuditEvent::received);
        last.with_context(|| format!("budget {name} was not changed"))
    }

    fn of<'a>(
        &'a self,
        resource: &'static str,
        subresource: &'static str,
        pod: &Pod,
    ) -> impl Iterator<Item = &'a AuditEvent> {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        self.0.iter().filter(move |event| {
            event.resource() == resource
                && event.subresource() == subresource
                && event.namespace() == namespace
                && event.name() == name
        })
    }

    fn answers<'a>(&'a self, pod: &Pod) -> impl Iterator<Item = &'a AuditEvent> {
        let namespace = pod.namespace().unwrap_or_default();
        let prefix = format!("{}-", pod.name_any());
        self.0.iter().filter(move |event| {
            event.resource() == "selfevacuations"
                && event.subresource() == "respond"
                && event.namespace() == namespace
                && event.name().starts_with(&prefix)
                && (200..300).contains(&event.code())
        })
    }
}

/// From one time to another, in milliseconds.
pub(crate) fn millis(from: Timestamp, to: Timestamp) -> i64 {
    i64::try_from(to.duration_since(from).as_millis()).unwrap_or(i64::MAX)
}
