//! The part of each object around a pod that the responder reads.
//!
//! Tenants write these objects, and several are read at a time. Each is cut down while it is decoded.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentSpec, ReplicaSet, ReplicaSetStatus},
    core::v1::{
        Container, ContainerPort, PersistentVolumeClaim, PersistentVolumeClaimSpec, PodSpec, Service,
        ServiceSpec, Volume,
    },
};
use kube::core::ObjectMeta;
use machinery_watch::Projection;

use super::{alone::host_port, group::is_failure};

/// Maximum number of labels in the selector of a Service that is looked at. A pod of the view has fewer, so a
/// longer selector picks none.
const MAX_SELECTOR: usize = 128;
/// Maximum number of claims that are kept of a ReplicaSet, more than the responder looks at.
const MAX_CLAIMS: usize = 64;

/// The part that the responder reads.
pub(super) enum Read {}

impl Projection<ReplicaSet> for Read {
    fn project(set: &mut ReplicaSet) {
        set.metadata = identity(std::mem::take(&mut set.metadata));
        if let Some(template) = &mut set.spec.template {
            template.metadata = None;
            template.spec = template.spec.take().map(spec_of);
        }
        if let Some(status) = set.status.take() {
            let failures = status.conditions.into_iter().flatten();
            let failure = failures
                .filter(|known| is_failure(known.type_.as_deref(), known.status.as_deref()))
                .take(1)
                .collect();
            set.status = Some(ReplicaSetStatus { conditions: Some(failure), ..ReplicaSetStatus::default() });
        }
    }
}

impl Projection<Deployment> for Read {
    fn project(deployment: &mut Deployment) {
        deployment.metadata = identity(std::mem::take(&mut deployment.metadata));
        let spec = std::mem::take(&mut deployment.spec);
        deployment.spec = DeploymentSpec { strategy: spec.strategy, ..DeploymentSpec::default() };
        deployment.status = None;
    }
}

impl Projection<PersistentVolumeClaim> for Read {
    fn project(claim: &mut PersistentVolumeClaim) {
        claim.metadata = identity(std::mem::take(&mut claim.metadata));
        claim.spec = claim.spec.take().map(|spec| PersistentVolumeClaimSpec {
            access_modes: spec.access_modes,
            ..PersistentVolumeClaimSpec::default()
        });
        claim.status = None;
    }
}

impl Projection<Service> for Read {
    fn project(service: &mut Service) {
        service.metadata = identity(std::mem::take(&mut service.metadata));
        service.spec = service.spec.take().map(|spec| {
            let selector = spec.selector.filter(|selector| selector.len() <= MAX_SELECTOR);
            ServiceSpec { selector, ..ServiceSpec::default() }
        });
        service.status = None;
    }
}

/// The fields of metadata that name an object and its controller, and say that it is being deleted.
fn identity(metadata: ObjectMeta) -> ObjectMeta {
    let mut owners = metadata.owner_references;
    if let Some(owners) = &mut owners {
        owners.retain(|owner| owner.controller == Some(true));
        owners.shrink_to_fit();
    }
    ObjectMeta {
        name: metadata.name,
        uid: metadata.uid,
        deletion_timestamp: metadata.deletion_timestamp,
        owner_references: owners,
        ..ObjectMeta::default()
    }
}

/// The claims, one port of the node, and whether the pods are in its network.
fn spec_of(spec: PodSpec) -> PodSpec {
    let port =
        host_port(&spec).map(|port| ContainerPort { host_port: Some(port), ..ContainerPort::default() });
    let container = port.map(|port| Container { ports: Some(vec![port]), ..Container::default() });
    let mut known = BTreeSet::new();
    let mut claims = Vec::new();
    for source in spec.volumes.into_iter().flatten().filter_map(|volume| volume.persistent_volume_claim) {
        if known.len() < MAX_CLAIMS && known.insert(source.claim_name.clone()) {
            claims.push(Volume { persistent_volume_claim: Some(source), ..Volume::default() });
        }
    }
    PodSpec {
        host_network: spec.host_network,
        containers: container.into_iter().collect(),
        volumes: Some(claims),
        ..PodSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::{
        super::alone::{claims_of, reason, reason_of_claim},
        *,
    };

    fn projected<K: DeserializeOwned>(object: Value) -> K
    where
        Read: Projection<K>,
    {
        let mut object = serde_json::from_value(object).unwrap();
        Read::project(&mut object);
        object
    }

    #[test]
    fn the_size_of_a_template_is_not_kept() {
        let size = |count: usize| {
            let many = |value: fn(usize) -> Value| (0..count).map(value).collect::<Vec<_>>();
            let variables = many(|n| json!({"name": n.to_string()}));
            let ports = many(|n| json!({"containerPort": n, "hostPort": 7}));
            let volumes = many(
                |n| json!({"name": n.to_string(), "persistentVolumeClaim": {"claimName": n.to_string()}}),
            );
            let owners =
                many(|n| json!({"apiVersion": "v1", "kind": "K", "name": "n", "uid": n.to_string()}));
            let set: ReplicaSet = projected(json!({
                "metadata": {"name": "web-1", "uid": "r1", "ownerReferences": owners, "labels": {"a": "x".repeat(count)}},
                "spec": {"replicas": 3, "minReadySeconds": 5, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {
                    "containers": [{"name": "c", "env": variables, "ports": ports}], "volumes": volumes,
                }}},
                "status": {"replicas": 0, "conditions": [
                    {"type": "Other", "status": "True", "message": "x".repeat(count)},
                    {"type": "ReplicaFailure", "status": "True", "message": "quota"},
                ]},
            }));
            assert_eq!((set.spec.replicas, set.spec.min_ready_seconds), (Some(3), Some(5)));
            let conditions = set.status.as_ref().unwrap().conditions.as_ref().unwrap();
            assert_eq!(conditions.iter().filter_map(|c| c.message.as_deref()).collect::<Vec<_>>(), ["quota"]);
            let pod = serde_json::from_value(json!({"metadata": {}})).unwrap();
            assert_eq!(reason(&pod, &set, None).unwrap(), "it takes port 7 of its node");
            assert!(claims_of(&set).is_err(), "too many claims");
            serde_json::to_string(&set).unwrap().len()
        };
        assert_eq!(size(100), size(1000));
    }

    #[test]
    fn the_port_of_a_template_in_the_network_of_the_node_is_kept() {
        let ports = json!([{"containerPort": 9100}]);
        for (spec, expected) in [
            (json!({"containers": [{"name": "c", "ports": ports}]}), None),
            (
                json!({"hostNetwork": true, "containers": [{"name": "c", "ports": ports}]}),
                Some("it takes port 9100 of its node, whose network it uses (hostNetwork)"),
            ),
        ] {
            let set = projected(json!({
                "metadata": {"name": "web-1"}, "spec": {"selector": {}, "template": {"spec": spec}},
            }));
            let pod = serde_json::from_value(json!({"metadata": {}})).unwrap();
            assert_eq!(reason(&pod, &set, None).as_deref(), expected);
        }
    }

    #[test]
    fn the_strategy_of_a_deployment_and_the_modes_of_a_claim_are_kept() {
        let template = json!({"spec": {"containers": [{"name": "c"}]}});
        let deployment: Deployment = projected(json!({
            "metadata": {"name": "web", "annotations": {"a": "b"}},
            "spec": {"selector": {}, "strategy": {"type": "Recreate"}, "template": template},
        }));
        assert_eq!(deployment.spec.template.spec, None);
        let set = projected(json!({"metadata": {"name": "web-1"}, "spec": {"selector": {}}}));
        let pod = serde_json::from_value(json!({"metadata": {}})).unwrap();
        let found = reason(&pod, &set, Some(&deployment));
        assert_eq!(found.unwrap(), "Deployment web has the strategy Recreate");
        let claim: PersistentVolumeClaim =
            projected(json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOncePod"]}}));
        assert!(reason_of_claim(&claim).is_some());
    }

    #[test]
    fn a_selector_that_is_longer_than_the_labels_of_a_pod_is_not_kept() {
        let kept = |count: usize| {
            let selector: serde_json::Map<String, Value> =
                (0..count).map(|n| (n.to_string(), json!(""))).collect();
            let ports = [json!({"port": 80})];
            let service: Service = projected(
                json!({"metadata": {"name": "web"}, "spec": {"selector": selector, "ports": ports}}),
            );
            let spec = service.spec.unwrap();
            assert_eq!(spec.ports, None);
            spec.selector.map(|selector| selector.len())
        };
        assert_eq!([kept(2), kept(128), kept(129)], [Some(2), Some(128), None]);
    }
}
