//! Owners that want no two of their pods at once.

use evacuation_api::{ONE_AT_A_TIME_ANNOTATION, parse_one_at_a_time};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{PersistentVolumeClaim, Pod, PodSpec},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt;

use super::record::annotation;

/// Access mode of a volume that one pod alone may use.
const ONE_POD: &str = "ReadWriteOncePod";

/// Returns the reason, in words, for which no second pod may run beside this one. `deployment` is the owner
/// of its ReplicaSet, if it has one, and `claims` are those of [`claims_of`] that exist.
pub(super) fn reason(
    pod: &Pod,
    set: &ReplicaSet,
    deployment: Option<&Deployment>,
    claims: &[PersistentVolumeClaim],
) -> Option<String> {
    let said = annotation(pod, ONE_AT_A_TIME_ANNOTATION);
    // A value that cannot be read is somebody's wish to be careful.
    if said.is_some_and(|said| parse_one_at_a_time(said).unwrap_or(true)) {
        return Some(format!("its annotation {ONE_AT_A_TIME_ANNOTATION} says so"));
    }
    if let Some(deployment) = deployment
        && let Some(strategy) = by_strategy(deployment)
    {
        return Some(format!("Deployment {} has {strategy}", deployment.name_any()));
    }
    if let Some(port) = template_of(set).and_then(host_port) {
        return Some(format!("it takes port {port} of its node"));
    }
    let alone = claims.iter().find(|claim| {
        let modes = claim.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten());
        modes.into_iter().any(|mode| mode == ONE_POD)
    });
    alone.map(|claim| format!("its claim {} has the access mode {ONE_POD}", claim.name_any()))
}

/// Returns the names of the claims of a ReplicaSet's pods. Those of ephemeral volumes are each pod's own.
pub(super) fn claims_of(set: &ReplicaSet) -> Vec<String> {
    let volumes = template_of(set).into_iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone())).collect()
}

fn template_of(set: &ReplicaSet) -> Option<&PodSpec> {
    set.spec.template.as_ref()?.spec.as_ref()
}

/// Returns the strategy of a Deployment that lets no pod run beside the one that it replaces.
fn by_strategy(deployment: &Deployment) -> Option<&'static str> {
    let strategy = deployment.spec.strategy.as_ref()?;
    if strategy.type_.as_deref() == Some("Recreate") {
        return Some("the strategy Recreate");
    }
    let surge = strategy.rolling_update.as_ref()?.max_surge.as_ref()?;
    let is_none = match surge {
        IntOrString::Int(number) => *number == 0,
        IntOrString::String(text) => text.trim_end_matches('%').parse() == Ok(0),
    };
    is_none.then_some("maxSurge 0")
}

/// Returns a port of the node that the pods take.
fn host_port(spec: &PodSpec) -> Option<i32> {
    let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
    ports.filter_map(|port| port.host_port).find(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(strategy: &Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "db"},
            "spec": {"selector": {}, "template": {}, "strategy": strategy},
        }))
        .unwrap()
    }

    fn set(spec: &Value) -> ReplicaSet {
        let spec = json!({"selector": {}, "template": {"spec": spec}});
        serde_json::from_value(json!({"metadata": {"name": "db-1"}, "spec": spec})).unwrap()
    }

    fn pod(said: Option<&str>) -> Pod {
        let annotations: Value = said.map_or(json!({}), |said| json!({ONE_AT_A_TIME_ANNOTATION: said}));
        serde_json::from_value(json!({"metadata": {"name": "p", "annotations": annotations}})).unwrap()
    }

    fn claim(mode: &str) -> PersistentVolumeClaim {
        serde_json::from_value(json!({"metadata": {"name": "data"}, "spec": {"accessModes": [mode]}}))
            .unwrap()
    }

    #[test]
    fn an_owner_says_in_many_ways_that_two_of_its_pods_must_not_run_at_once() {
        let rolling = |surge: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}});
        let containers = |ports: Value| json!({"containers": [{"name": "app", "ports": ports}]});
        let plain = || containers(json!([{"containerPort": 80}]));
        let table = [
            (None, rolling(json!(1)), plain(), None, None),
            (None, rolling(json!("25%")), plain(), None, None),
            (None, json!({}), plain(), Some("ReadWriteOnce"), None),
            (Some("false"), json!({}), plain(), None, None),
            (
                None,
                json!({"type": "Recreate"}),
                plain(),
                None,
                Some("Deployment db has the strategy Recreate"),
            ),
            (
                Some("false"),
                json!({"type": "Recreate"}),
                plain(),
                None,
                Some("Deployment db has the strategy"),
            ),
            (None, rolling(json!(0)), plain(), None, Some("Deployment db has maxSurge 0")),
            (None, rolling(json!("0%")), plain(), None, Some("Deployment db has maxSurge 0")),
            (
                None,
                json!({}),
                containers(json!([{"containerPort": 80, "hostPort": 8080}])),
                None,
                Some("it takes port 8080 of its node"),
            ),
            (None, json!({}), plain(), Some(ONE_POD), Some("its claim data has the access mode")),
            (
                Some("true"),
                json!({}),
                plain(),
                None,
                Some("its annotation surge.evacuation.dev/one-at-a-time"),
            ),
            (
                Some("yes"),
                json!({}),
                plain(),
                None,
                Some("its annotation surge.evacuation.dev/one-at-a-time"),
            ),
        ];
        for (said, strategy, spec, mode, expected) in table {
            let claims: Vec<_> = mode.into_iter().map(claim).collect();
            let found = reason(&pod(said), &set(&spec), Some(&deployment(&strategy)), &claims);
            assert_eq!(found.is_some(), expected.is_some(), "{strategy} {spec} {mode:?}: {found:?}");
            assert!(found.unwrap_or_default().starts_with(expected.unwrap_or_default()));
        }
        assert_eq!(reason(&pod(None), &set(&plain()), None, &[]), None, "no Deployment");
    }

    #[test]
    fn the_claims_of_a_template_are_those_that_its_pods_share() {
        let volumes = json!([
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "emptyDir": {}},
            {"name": "c", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        ]);
        assert_eq!(claims_of(&set(&json!({"containers": [], "volumes": volumes}))), ["data"]);
    }
}
