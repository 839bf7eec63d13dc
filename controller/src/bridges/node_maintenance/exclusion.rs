//! Exclusion of medik8s' remediation from a node: the node's lease, and the label that remediators respect.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_protocol::release;
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Node},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};

use crate::cluster::{CallError, Cluster, Leadership, ServerClock, View, call};

/// Namespace of medik8s' leases.
const NAMESPACE: &str = "medik8s-leases";
/// Holder of the leases that this bridge takes.
const HOLDER: &str = "evacuation.dev";
/// Holder of the leases that medik8s' operator for NodeMaintenances takes.
const OPERATOR: &str = "node-maintenance";
/// Time after which a lease without renewal is free, in seconds; medik8s' own.
const DURATION_SECONDS: i32 = 3600;
/// Age of a lease at which it is renewed.
pub(super) const RENEW_AFTER: TimeDelta = TimeDelta::minutes(20);
/// Label of a node that remediators leave alone.
const LABEL: &str = "remediation.medik8s.io/exclude-from-remediation";
/// Annotation of a node whose label this bridge set.
const LABELED: &str = "bridge.evacuation.dev/excluded-from-remediation";

/// Holder of a node's lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// This bridge.
    Us,
    /// The operator for NodeMaintenances, which therefore runs.
    Operator,
    /// Another controller of medik8s.
    Other(String),
}

/// Next step for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Create,
    Replace,
    Leave(Holder),
}

/// Writer of the leases and of the label.
pub(super) struct Exclusion {
    leases: Api<Lease>,
    nodes: Api<Node>,
    leadership: Leadership,
    view: Arc<View>,
    clock: Arc<ServerClock>,
}

impl Exclusion {
    /// Returns a writer that stores nodes that the API returns in the view.
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self {
            leases: Api::namespaced(cluster.client.clone(), NAMESPACE),
            nodes: Api::all(cluster.client.clone()),
            leadership: cluster.leadership.clone(),
            view: Arc::clone(&cluster.view),
            clock: Arc::clone(&cluster.clock),
        }
    }

    /// Returns true when the operator for NodeMaintenances holds the lease of a node.
    pub(super) async fn is_operators(&self, node: &str) -> Result<bool, CallError> {
        let name = lease_name(node);
        let known = call(format!("read lease {name}"), self.leases.get_opt(&name)).await?;
        Ok(step(known.as_ref(), self.clock.now()) == Step::Leave(Holder::Operator))
    }

    /// Takes or renews the lease of a node, and sets the label. Returns the holder.
    pub(super) async fn take(&self, node: &Node) -> Result<Holder, CallError> {
        let (name, now) = (lease_name(&node.name_any()), self.clock.now());
        let known = call(format!("read lease {name}"), self.leases.get_opt(&name)).await?;
        let next = step(known.as_ref(), now);
        if let Step::Leave(holder @ (Holder::Operator | Holder::Other(_))) = next {
            return Ok(holder);
        }
        self.leadership.check()?;
        let lease = held(node, known, now);
        let parameters = PostParams::default();
        match next {
            Step::Create => {
                call(format!("create lease {name}"), self.leases.create(&parameters, &lease))
                    .await
                    .map(drop)?;
            }
            Step::Replace => {
                let write = self.leases.replace(&name, &parameters, &lease);
                call(format!("renew lease {name}"), write).await.map(drop)?;
            }
            Step::Leave(_) => {}
        }
        if !node.labels().contains_key(LABEL) {
            let metadata = json!({"labels": {LABEL: "true"}, "annotations": {LABELED: "true"}});
            self.patch(node, metadata, "exclude").await?;
        }
        Ok(Holder::Us)
    }

    /// Gives the lease of a node back, and removes the label. Another's lease or label stays.
    pub(super) async fn release(&self, name: &str) -> Result<(), CallError> {
        self.leadership.check()?;
        let node = self.view.index().node(name);
        if let Some(node) = node.filter(|node| node.annotations().contains_key(LABELED)) {
            let metadata = json!({"labels": {LABEL: null}, "annotations": {LABELED: null}});
            self.patch(&node, metadata, "include").await?;
        }
        let name = lease_name(name);
        let known = call(format!("read lease {name}"), self.leases.get_opt(&name)).await?;
        let Some(lease) = known.filter(|lease| holder(lease) == Some(HOLDER)) else { return Ok(()) };
        let version = lease.resource_version();
        let preconditions = Preconditions { uid: lease.uid(), resource_version: version };
        let parameters = DeleteParams::default().preconditions(preconditions);
        match call(format!("delete lease {name}"), self.leases.delete(&name, &parameters)).await {
            Err(error) if error.code() == 404 => Ok(()),
            done => done.map(drop),
        }
    }

    /// Leaves the cordon that a drain holds to others: the drain's end does not uncordon the node.
    pub(super) async fn leave_cordon(&self, name: &str, drain: &str) -> Result<(), CallError> {
        self.leadership.check()?;
        let Some(node) = self.view.index().node(name) else { return Ok(()) };
        let Some(change) = release(&node, drain) else { return Ok(()) };
        let annotations = json!({evacuation_api::CORDONED_BY_ANNOTATION: change.annotation});
        self.patch(&node, json!({"annotations": annotations}), "leave the cordon of").await
    }

    async fn patch(&self, node: &Node, mut metadata: Value, verb: &str) -> Result<(), CallError> {
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("uid".to_owned(), json!(node.uid()));
            metadata.insert("resourceVersion".to_owned(), json!(node.resource_version()));
        }
        let (name, parameters) = (node.name_any(), PatchParams::default());
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let write = self.nodes.patch(&name, &parameters, &patch);
        let mut written = call(format!("{verb} node {name}"), write).await?;
        written.metadata.managed_fields = None;
        self.view.apply(written);
        Ok(())
    }
}

fn lease_name(node: &str) -> String {
    format!("node-{node}")
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// Returns the next step for a lease.
fn step(lease: Option<&Lease>, now: DateTime<Utc>) -> Step {
    let Some(lease) = lease else { return Step::Create };
    let spec = lease.spec.clone().unwrap_or_default();
    let renewed = spec.renew_time.and_then(|time| DateTime::from_timestamp_micros(time.0.as_microsecond()));
    let duration = TimeDelta::seconds(spec.lease_duration_seconds.unwrap_or_default().into());
    let is_free = renewed.is_none_or(|renewed| renewed + duration <= now);
    match holder(lease) {
        Some(HOLDER) if renewed.is_some_and(|renewed| now < renewed + RENEW_AFTER) => Step::Leave(Holder::Us),
        Some(HOLDER) | None => Step::Replace,
        Some(_) if is_free => Step::Replace,
        Some(OPERATOR) => Step::Leave(Holder::Operator),
        Some(other) => Step::Leave(Holder::Other(other.to_owned())),
    }
}

/// Returns the lease of a node, held by this bridge. The node owns it, as medik8s' leases.
fn held(node: &Node, known: Option<Lease>, now: DateTime<Utc>) -> Lease {
    let now = MicroTime(Timestamp::from_microsecond(now.timestamp_micros()).unwrap_or_default());
    let mut lease = known.unwrap_or_default();
    let ours = holder(&lease) == Some(HOLDER);
    lease.metadata.name = Some(lease_name(&node.name_any()));
    lease.metadata.owner_references.get_or_insert_with(|| {
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": node.name_any(), "uid": node.uid()}]);
        serde_json::from_value(owner).unwrap_or_default()
    });
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(HOLDER.to_owned());
    spec.lease_duration_seconds = Some(DURATION_SECONDS);
    if !ours {
        spec.acquire_time = Some(now.clone());
        spec.lease_transitions = Some(spec.lease_transitions.unwrap_or_default() + 1);
    }
    spec.renew_time = Some(now);
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + minute * 60, 0).unwrap()
    }

    #[test]
    fn a_free_lease_is_taken_our_own_is_renewed_in_time_and_anothers_is_left_alone() {
        let lease = |holder: &str, minute: i64| -> Lease {
            let spec =
                json!({"holderIdentity": holder, "leaseDurationSeconds": 3600, "renewTime": at(minute)});
            serde_json::from_value(json!({"spec": spec})).unwrap()
        };
        let health_check = "node-healthcheck";
        let table = [
            (None, Step::Create),
            (Some(lease(HOLDER, -19)), Step::Leave(Holder::Us)),
            (Some(lease(HOLDER, -21)), Step::Replace),
            (Some(lease(HOLDER, -90)), Step::Replace),
            (Some(lease("", 0)), Step::Replace),
            (Some(lease(OPERATOR, -59)), Step::Leave(Holder::Operator)),
            (Some(lease(OPERATOR, -60)), Step::Replace),
            (Some(lease(health_check, -1)), Step::Leave(Holder::Other(health_check.to_owned()))),
            (Some(lease(health_check, -61)), Step::Replace),
        ];
        for (lease, expected) in table {
            assert_eq!(step(lease.as_ref(), at(0)), expected, "{lease:?}");
        }
    }

    #[test]
    fn a_lease_that_is_taken_over_counts_the_transition_and_one_that_is_renewed_does_not() {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "a", "uid": "n1"}})).unwrap();
        let first = held(&node, None, at(0));
        assert_eq!(first.metadata.name.as_deref(), Some("node-a"));
        assert_eq!(first.owner_references()[0].uid, "n1");
        let renewed = held(&node, Some(first.clone()), at(30)).spec.unwrap();
        let first = first.spec.unwrap();
        assert_eq!((renewed.lease_transitions, renewed.acquire_time), (Some(1), first.acquire_time));
        assert!(renewed.renew_time > first.renew_time);
    }
}
