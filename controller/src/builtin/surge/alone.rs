//! Owners that want no two of their pods at once.

use std::collections::BTreeSet;

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
/// Maximum number of claims of a pod that are looked at. Each takes a read of the API for each question.
const MAX_CLAIMS: usize = 8;

/// Returns the reason, in words, for which no second pod may run beside this one. `deployment` is the owner
/// of its ReplicaSet, if it has one. The claims are left to [`claims_of`] and [`reason_of_claim`].
pub(super) fn reason(pod: &Pod, set: &ReplicaSet, deployment: Option<&Deployment>) -> Option<String> {
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
    let template = template_of(set)?;
    let why = if is_on_host_network(template) { ", whose network it uses (hostNetwork)" } else { "" };
    host_port(template).map(|port| format!("it takes port {port} of its node{why}"))
}

/// Returns the reason for which the pods that share a claim must not run at once.
pub(super) fn reason_of_claim(claim: &PersistentVolumeClaim) -> Option<String> {
    let mut modes = claim.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten());
    let is_for_one = modes.any(|mode| mode == ONE_POD);
    is_for_one.then(|| format!("its claim {} has the access mode {ONE_POD}", claim.name_any()))
}

/// Returns the names of the claims of a ReplicaSet's pods. Those of ephemeral volumes are each pod's own.
///
/// # Errors
///
/// The reason for which no second pod may run: there are too many to look at, and any of them could be for
/// one pod.
pub(super) fn claims_of(set: &ReplicaSet) -> Result<BTreeSet<&str>, String> {
    let volumes = template_of(set).into_iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claims: BTreeSet<&str> = volumes
        .filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.as_str()))
        .collect();
    if claims.len() > MAX_CLAIMS {
        return Err(format!("it has {} claims, of which at most {MAX_CLAIMS} are looked at", claims.len()));
    }
    Ok(claims)
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

/// Returns a port of the node that the pods take. A side-car is an init container. In the network of the node
/// each port of a container is one: the API server sets `hostPort` in pods, and not in templates.
pub(super) fn host_port(spec: &PodSpec) -> Option<i32> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    ports.find_map(|port| {
        let said = port.host_port.filter(|port| *port != 0);
        said.or_else(|| is_on_host_network(spec).then_some(port.container_port))
    })
}

fn is_on_host_network(spec: &PodSpec) -> bool {
    spec.host_network == Some(true)
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
            (None, rolling(json!(1)), plain(), None),
            (None, rolling(json!("25%")), plain(), None),
            (Some("false"), json!({}), plain(), None),
            (None, json!({"type": "Recreate"}), plain(), Some("Deployment db has the strategy Recreate")),
            (Some("false"), json!({"type": "Recreate"}), plain(), Some("Deployment db has the strategy")),
            (None, rolling(json!(0)), plain(), Some("Deployment db has maxSurge 0")),
            (None, rolling(json!("0%")), plain(), Some("Deployment db has maxSurge 0")),
            (
                None,
                json!({}),
                containers(json!([{"containerPort": 80, "hostPort": 8080}])),
                Some("it takes port 8080 of its node"),
            ),
            (
                None,
                json!({}),
                json!({"containers": [], "initContainers": [
                    {"name": "proxy", "restartPolicy": "Always", "ports": [{"containerPort": 80, "hostPort": 80}]},
                ]}),
                Some("it takes port 80 of its node"),
            ),
            (
                None,
                json!({}),
                json!({"hostNetwork": true, "containers": [
                    {"name": "metrics"}, {"name": "app", "ports": [{"containerPort": 80}]},
                ]}),
                Some("it takes port 80 of its node, whose network it uses (hostNetwork)"),
            ),
            (
                None,
                json!({}),
                json!({"hostNetwork": true, "containers": [], "initContainers": [
                    {"name": "proxy", "restartPolicy": "Always", "ports": [{"containerPort": 81, "hostPort": 0}]},
                ]}),
                Some("it takes port 81 of its node, whose network it uses (hostNetwork)"),
            ),
            (None, json!({}), json!({"hostNetwork": true, "containers": [{"name": "app"}]}), None),
            (
                None,
                json!({}),
                json!({"hostNetwork": false, "containers": [{"name": "app", "ports": [{"containerPort": 80}]}]}),
                None,
            ),
            (None, json!({"rollingUpdate": {"maxSurge": 0}}), plain(), Some("Deployment db has maxSurge 0")),
            (None, json!({"type": "RollingUpdate"}), plain(), None),
            (Some("true"), json!({}), plain(), Some("its annotation surge.evacuation.dev/one-at-a-time")),
            (Some("yes"), json!({}), plain(), Some("its annotation surge.evacuation.dev/one-at-a-time")),
        ];
        for (said, strategy, spec, expected) in table {
            let found = reason(&pod(said), &set(&spec), Some(&deployment(&strategy)));
            assert_eq!(found.is_some(), expected.is_some(), "{strategy} {spec}: {found:?}");
            assert!(found.unwrap_or_default().starts_with(expected.unwrap_or_default()));
        }
        assert_eq!(reason(&pod(None), &set(&plain()), None), None, "no Deployment");
    }

    #[test]
    fn a_claim_for_one_pod_lets_no_second_one_run() {
        assert_eq!(reason_of_claim(&claim("ReadWriteOnce")), None);
        let expected = "its claim data has the access mode ReadWriteOncePod";
        assert_eq!(reason_of_claim(&claim(ONE_POD)).as_deref(), Some(expected));
    }

    #[test]
    fn the_claims_of_a_template_are_those_that_its_pods_share() {
        let volumes = json!([
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "emptyDir": {}},
            {"name": "c", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        ]);
        let set = set(&json!({"containers": [], "volumes": volumes}));
        assert_eq!(claims_of(&set), Ok(BTreeSet::from(["data"])));
    }

    #[test]
    fn more_claims_than_are_looked_at_count_as_claims_for_one_pod() {
        let with_claims = |count: usize| {
            let volume = |number: usize| {
                let claim = format!("data-{}", number % count);
                json!({"name": format!("v-{number}"), "persistentVolumeClaim": {"claimName": claim}})
            };
            // Each claim is mounted twice.
            let volumes: Vec<Value> = (0..2 * count).map(volume).collect();
            set(&json!({"containers": [], "volumes": volumes}))
        };
        assert_eq!(claims_of(&with_claims(MAX_CLAIMS)).map(|claims| claims.len()), Ok(MAX_CLAIMS));
        let expected = "it has 64 claims, of which at most 8 are looked at";
        assert_eq!(claims_of(&with_claims(64)), Err(expected.to_owned()));
    }
}
