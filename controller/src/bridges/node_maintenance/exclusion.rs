//! Exclusion of medik8s' remediation from a node: the node's lease, and the label that remediators respect.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{CORDONED_BY_ANNOTATION, EXCLUDED_ANNOTATION as LABELED, EXCLUDED_LABEL as LABEL};
use evacuation_protocol::release;
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Node},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{Api, Resource, ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::{
    bridges::foreign::{delete, find, merge},
    cluster::{CallError, Cluster, call},
};

/// Namespace of medik8s' leases.
const NAMESPACE: &str = "medik8s-leases";
/// Holder of the leases that this bridge takes.
const HOLDER: &str = "evacuation.dev";
/// Time after which a lease without renewal is free, in seconds; medik8s' own.
const DURATION_SECONDS: i32 = 3600;
/// Age of a lease at which it is renewed.
const RENEW_AFTER: TimeDelta = TimeDelta::minutes(20);

/// Writer of the leases and of the label.
pub(super) struct Exclusion {
    cluster: Cluster,
    leases: Api<Lease>,
}

impl Exclusion {
    /// Returns a writer that stores nodes that the API returns in the view.
    pub(super) fn new(cluster: &Cluster) -> Self {
        Self { leases: Api::namespaced(cluster.client.clone(), NAMESPACE), cluster: cluster.clone() }
    }

    /// Returns the other controller that holds the lease of a node.
    pub(super) async fn other_holder(&self, node: &str) -> Result<Option<String>, CallError> {
        Ok(other(self.lease(node).await?.as_ref(), self.cluster.clock.now()))
    }

    /// Takes or renews the lease of a node, and sets the label. Returns the other controller that holds the
    /// lease, if any.
    pub(super) async fn take(&self, node: &Node) -> Result<Option<String>, CallError> {
        let (now, parameters) = (self.cluster.clock.now(), PostParams::default());
        let known = self.lease(&node.name_any()).await?;
        if let Some(other) = other(known.as_ref(), now) {
            return Ok(Some(other));
        }
        self.cluster.leadership.check()?;
        if !matches!(known.as_ref().and_then(|lease| holder(lease, now)), Some((_, age)) if age < RENEW_AFTER)
        {
            let (is_new, lease) = (known.is_none(), held(node, known.unwrap_or_default(), now));
            let name = lease.name_any();
            if is_new {
                call(format!("create lease {name}"), self.leases.create(&parameters, &lease)).await?;
            } else {
                call(format!("renew lease {name}"), self.leases.replace(&name, &parameters, &lease)).await?;
            }
        }
        if !node.labels().contains_key(LABEL) {
            let metadata = json!({"labels": {LABEL: "true"}, "annotations": {LABELED: "true"}});
            self.change_node(node, metadata).await?;
        }
        Ok(None)
    }

    /// Gives the lease of a node back, and removes the label. Another's lease or label stays.
    pub(super) async fn release(&self, name: &str) -> Result<(), CallError> {
        self.cluster.leadership.check()?;
        let node = self.cluster.view.index().node(name);
        if let Some(node) = node.filter(|node| node.annotations().contains_key(LABELED)) {
            let metadata = json!({"labels": {LABEL: null}, "annotations": {LABELED: null}});
            self.change_node(&node, metadata).await?;
        }
        match self.lease(name).await.map(|lease| lease.filter(is_ours)) {
            Ok(Some(lease)) => delete(&self.leases, &lease).await,
            // There is no lease of ours where none can be read.
            Err(error) if error.code() != 403 => Err(error),
            _ => Ok(()),
        }
    }

    /// Leaves the cordon that a drain holds to others: the drain's end does not uncordon the node.
    pub(super) async fn leave_cordon(&self, name: &str, drain: &str) -> Result<(), CallError> {
        self.cluster.leadership.check()?;
        let Some(node) = self.cluster.view.index().node(name) else { return Ok(()) };
        let Some(change) = release(&node, drain) else { return Ok(()) };
        self.change_node(&node, json!({"annotations": {CORDONED_BY_ANNOTATION: change.annotation}})).await
    }

    async fn lease(&self, node: &str) -> Result<Option<Lease>, CallError> {
        Ok(find(None, &self.leases, &lease_name(node)).await?.map(Arc::unwrap_or_clone))
    }

    async fn change_node(&self, node: &Node, metadata: Value) -> Result<(), CallError> {
        let nodes = Api::all(self.cluster.client.clone());
        let mut written = merge(&nodes, node, json!({"metadata": metadata})).await?;
        written.metadata.managed_fields = None;
        self.cluster.view.apply(written);
        Ok(())
    }
}

fn lease_name(node: &str) -> String {
    format!("node-{node}")
}

fn is_ours(lease: &Lease) -> bool {
    lease.spec.as_ref().is_some_and(|spec| spec.holder_identity.as_deref() == Some(HOLDER))
}

/// Returns the holder of a lease, and the time since its renewal. `None` for a lease that is free.
fn holder(lease: &Lease, now: DateTime<Utc>) -> Option<(&str, TimeDelta)> {
    let spec = lease.spec.as_ref()?;
    let renewed = DateTime::from_timestamp_micros(spec.renew_time.as_ref()?.0.as_microsecond())?;
    let (age, duration) = (now - renewed, spec.lease_duration_seconds.unwrap_or_default());
    let holder = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
    (age < TimeDelta::seconds(duration.into())).then_some((holder, age))
}

fn other(lease: Option<&Lease>, now: DateTime<Utc>) -> Option<String> {
    let (holder, _) = holder(lease?, now)?;
    (holder != HOLDER).then(|| holder.to_owned())
}

/// Returns the lease of a node, held by this bridge. The node owns it, as medik8s' leases.
fn held(node: &Node, mut lease: Lease, now: DateTime<Utc>) -> Lease {
    let now = MicroTime(Timestamp::from_microsecond(now.timestamp_micros()).unwrap_or_default());
    let is_renewal = is_ours(&lease);
    lease.metadata.name = Some(lease_name(&node.name_any()));
    lease.metadata.owner_references.get_or_insert_with(|| node.owner_ref(&()).into_iter().collect());
    let spec = lease.spec.get_or_insert_default();
    if !is_renewal {
        spec.acquire_time = Some(now.clone());
        spec.lease_transitions = Some(spec.lease_transitions.unwrap_or_default() + 1);
    }
    spec.holder_identity = Some(HOLDER.to_owned());
    spec.lease_duration_seconds = Some(DURATION_SECONDS);
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
    fn a_lease_is_anothers_until_it_expires_and_our_own_has_an_age() {
        let lease = |holder: &str, minute: i64| -> Lease {
            let spec =
                json!({"holderIdentity": holder, "leaseDurationSeconds": 3600, "renewTime": at(minute)});
            serde_json::from_value(json!({"spec": spec})).unwrap()
        };
        let age = |minutes: i64| Some(TimeDelta::minutes(minutes));
        let table = [
            (HOLDER, -19, None, age(19)),
            (HOLDER, -21, None, age(21)),
            (HOLDER, -90, None, None),
            ("", 0, None, None),
            ("node-maintenance", -59, Some("node-maintenance"), age(59)),
            ("node-maintenance", -60, None, None),
            ("node-healthcheck", -1, Some("node-healthcheck"), age(1)),
        ];
        for (name, minute, expected, age) in table {
            let lease = lease(name, minute);
            assert_eq!(other(Some(&lease), at(0)).as_deref(), expected, "{name} {minute}");
            assert_eq!(holder(&lease, at(0)).map(|(_, age)| age), age, "{name} {minute}");
        }
        assert_eq!(other(None, at(0)), None);
    }

    #[test]
    fn a_lease_that_is_taken_over_counts_the_transition_and_one_that_is_renewed_does_not() {
        let node: Node = serde_json::from_value(json!({"metadata": {"name": "a", "uid": "n1"}})).unwrap();
        let first = held(&node, Lease::default(), at(0));
        assert_eq!(first.metadata.name.as_deref(), Some("node-a"));
        assert_eq!(first.owner_references()[0].uid, "n1");
        let renewed = held(&node, first.clone(), at(30)).spec.unwrap();
        let first = first.spec.unwrap();
        assert_eq!((renewed.lease_transitions, renewed.acquire_time), (Some(1), first.acquire_time));
        assert!(renewed.renew_time > first.renew_time);
    }
}
