//! Validation of the NodeEvacuation.

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use machinery_validation::{FieldError, FieldErrorKind, FieldPath, label_key};

use super::{
    evacuation::MAX_SECONDS,
    selector::validate_selector,
    text::{Errors, is_dns_subdomain},
    window::validate_window,
};
use crate::{
    DrainPhase, DrainRequester, MAX_DRAINED_NODES, MaxParallel, NodeEvacuation, NodeEvacuationSpec,
    NodeSelection,
};

/// Maximum length of a NodeEvacuation's name: the name of its entries holds a part of its UID, too.
pub const MAX_DRAIN_NAME_LENGTH: usize = 240;
/// Maximum number of phases.
pub const MAX_PHASES: usize = 16;

/// Returns every problem of a new NodeEvacuation.
pub fn validate_node_evacuation(drain: &NodeEvacuation) -> Vec<FieldError> {
    let mut errors = Errors::default();
    if drain.metadata.name.as_ref().is_some_and(|name| name.len() > MAX_DRAIN_NAME_LENGTH) {
        let field = FieldPath::new("metadata").child("name");
        errors.add(
            FieldErrorKind::TooLong,
            field,
            format!("must have at most {MAX_DRAIN_NAME_LENGTH} bytes"),
        );
    }
    validate_spec(&mut errors, &FieldPath::new("spec"), &drain.spec);
    errors.0
}

/// Returns every problem of a change of a NodeEvacuation.
pub fn validate_node_evacuation_update(drain: &NodeEvacuation, old: &NodeEvacuation) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = FieldPath::new("spec");
    if drain.spec.nodes != old.spec.nodes {
        errors.add(FieldErrorKind::Invalid, spec.child("nodes"), "field is immutable");
    }
    validate_spec(&mut errors, &spec, &drain.spec);
    errors.0
}

/// Adds every problem of a spec.
pub(super) fn validate_spec(errors: &mut Errors, path: &FieldPath, spec: &NodeEvacuationSpec) {
    validate_nodes(errors, &path.child("nodes"), &spec.nodes);
    validate_requester(errors, &path.child("requester"), &spec.requester);
    let pods = path.child("pods");
    if let Some(selector) = &spec.pods.selector {
        validate_selector(errors, &pods.child("selector"), selector);
    }
    let skip = spec.pods.skip_terminating_seconds;
    errors.within(pods.child("skipTerminatingSeconds"), skip, 1, MAX_SECONDS);
    let ttl = spec.ttl_seconds_after_finished;
    errors.within(path.child("ttlSecondsAfterFinished"), ttl, 0, MAX_SECONDS);
    let phases = path.child("phases");
    if spec.phases.len() > MAX_PHASES {
        let message = format!("must have at most {MAX_PHASES} items, has {}", spec.phases.len());
        errors.add(FieldErrorKind::TooMany, phases.clone(), message);
    }
    for (i, phase) in spec.phases.iter().enumerate() {
        validate_phase(errors, &phases.index(i), phase);
    }
    if let Some(limits) = &spec.max_parallel {
        validate_limits(errors, &path.child("maxParallel"), limits);
    }
}

fn validate_nodes(errors: &mut Errors, path: &FieldPath, nodes: &NodeSelection) {
    let names = path.child("names");
    match (&nodes.selector, nodes.names.is_empty()) {
        (None, true) => errors.add(FieldErrorKind::Required, path.clone(), "needs names or a selector"),
        (Some(_), false) => {
            errors.add(FieldErrorKind::Forbidden, names.clone(), "may not be given together with a selector");
        }
        (Some(selector), true) if is_empty(selector) => {
            let message = "must not be empty: it would pick every node of the cluster";
            errors.add(FieldErrorKind::Required, path.child("selector"), message);
        }
        (Some(selector), true) => validate_selector(errors, &path.child("selector"), selector),
        (None, false) => {}
    }
    if nodes.follow && nodes.selector.is_none() {
        errors.add(FieldErrorKind::Forbidden, path.child("follow"), "needs a selector");
    }
    if nodes.names.len() > MAX_DRAINED_NODES {
        let message = format!("must have at most {MAX_DRAINED_NODES} items, has {}", nodes.names.len());
        errors.add(FieldErrorKind::TooMany, names, message);
        return;
    }
    let mut seen = HashSet::new();
    for (i, name) in nodes.names.iter().enumerate() {
        if !is_dns_subdomain(name) {
            errors.invalid(names.index(i), format!("{name:?} is not the name of a node"));
        } else if !seen.insert(name) {
            errors.add(FieldErrorKind::Duplicate, names.index(i), format!("{name:?}"));
        }
    }
}

fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.iter().flatten().next().is_none()
        && selector.match_expressions.iter().flatten().next().is_none()
}

fn validate_requester(errors: &mut Errors, path: &FieldPath, requester: &DrainRequester) {
    errors.reason(path.child("reason"), requester.reason.as_deref());
    errors.message(path.child("message"), requester.message.as_deref());
    errors.within(path.child("deadlineSeconds"), requester.deadline_seconds, 0, MAX_SECONDS);
    errors.within(path.child("gracePeriodSeconds"), requester.grace_period_seconds, 0, MAX_SECONDS);
    if requester.at_deadline.is_some() && requester.deadline_seconds.is_none() {
        let message = "atDeadline needs a deadline";
        errors.add(FieldErrorKind::Required, path.child("deadlineSeconds"), message);
    }
    if let Some(window) = &requester.window {
        validate_window(errors, &path.child("window"), window);
    }
}

fn validate_phase(errors: &mut Errors, path: &FieldPath, phase: &DrainPhase) {
    match (&phase.selector, phase.min_priority, phase.max_priority) {
        (None, None, None) => {
            let message = "needs a selector, minPriority or maxPriority";
            errors.add(FieldErrorKind::Required, path.clone(), message);
        }
        (_, Some(least), Some(most)) if least > most => {
            errors.invalid(path.child("minPriority"), format!("{least} is more than maxPriority, {most}"));
        }
        _ => {}
    }
    if let Some(selector) = &phase.selector {
        validate_selector(errors, &path.child("selector"), selector);
    }
}

fn validate_limits(errors: &mut Errors, path: &FieldPath, limits: &MaxParallel) {
    let most = i64::from(i32::MAX);
    errors.within(path.child("nodes"), limits.nodes.map(i64::from), 1, most);
    errors.within(path.child("pods"), limits.pods.map(i64::from), 1, most);
    if let Some(topology) = &limits.per_topology_key {
        let path = path.child("perTopologyKey");
        errors.within(path.child("nodes"), Some(i64::from(topology.nodes)), 1, most);
        let problems = label_key(&topology.key);
        let invalid = |problem: &String| FieldError::invalid(&path.child("key"), &topology.key, problem);
        errors.0.extend(problems.iter().map(invalid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn drain(spec: &Value) -> NodeEvacuation {
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap()
    }

    fn good() -> Value {
        json!({
            "nodes": {"names": ["node-a", "node-b"]},
            "requester": {"deadlineSeconds": 60},
            "pods": {"selector": {"matchLabels": {"app": "db"}}},
            "phases": [{"selector": {"matchLabels": {"tier": "web"}}, "minPriority": 0}],
            "ttlSecondsAfterFinished": 0,
            "maxParallel": {"nodes": 1, "pods": 5, "perTopologyKey": {"key": "topology.kubernetes.io/zone", "nodes": 1}},
        })
    }

    /// Each error as `KIND FIELD`.
    fn brief(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(|e| format!("{:?} {}", e.kind, e.field)).collect()
    }

    #[test]
    fn a_plain_drain_is_valid() {
        assert_eq!(validate_node_evacuation(&drain(&good())), []);
        let selector = json!({"nodes": {"selector": {"matchLabels": {"pool": "a"}}, "follow": true}});
        assert_eq!(validate_node_evacuation(&drain(&selector)), []);
    }

    #[test]
    fn each_field_is_checked_on_its_own() {
        let many: Vec<String> = (0..501).map(|n| format!("n{n}")).collect();
        let labels = json!({"matchLabels": {"a": "b"}});
        let table: &[(&str, Value, &str)] = &[
            ("/nodes", json!({}), "Required spec.nodes"),
            ("/nodes", json!({"names": ["a"], "selector": labels}), "Forbidden spec.nodes.names"),
            ("/nodes", json!({"selector": {}}), "Required spec.nodes.selector"),
            ("/nodes", json!({"names": ["a"], "follow": true}), "Forbidden spec.nodes.follow"),
            ("/nodes", json!({"names": ["A_"]}), "Invalid spec.nodes.names[0]"),
            ("/nodes", json!({"names": ["a", "a"]}), "Duplicate spec.nodes.names[1]"),
            ("/nodes", json!({"names": many}), "TooMany spec.nodes.names"),
            ("/requester", json!({"reason": "not camel"}), "Invalid spec.requester.reason"),
            ("/requester", json!({"deadlineSeconds": -1}), "Invalid spec.requester.deadlineSeconds"),
            ("/requester", json!({"atDeadline": "Delete"}), "Required spec.requester.deadlineSeconds"),
            ("/requester", json!({"gracePeriodSeconds": -1}), "Invalid spec.requester.gracePeriodSeconds"),
            (
                "/requester",
                json!({"window": {"schedule": "soon", "durationSeconds": 60}}),
                "Invalid spec.requester.window.schedule",
            ),
            ("/pods", json!({"skipTerminatingSeconds": 0}), "Invalid spec.pods.skipTerminatingSeconds"),
            ("/ttlSecondsAfterFinished", json!(-1), "Invalid spec.ttlSecondsAfterFinished"),
            ("/phases", json!([{}]), "Required spec.phases[0]"),
            ("/phases", json!([{"minPriority": 2, "maxPriority": 1}]), "Invalid spec.phases[0].minPriority"),
            ("/phases", json!(vec![json!({"minPriority": 1}); 17]), "TooMany spec.phases"),
            ("/maxParallel", json!({"nodes": 0}), "Invalid spec.maxParallel.nodes"),
            ("/maxParallel", json!({"pods": -1}), "Invalid spec.maxParallel.pods"),
            (
                "/maxParallel",
                json!({"perTopologyKey": {"key": "a", "nodes": 0}}),
                "Invalid spec.maxParallel.perTopologyKey.nodes",
            ),
            (
                "/maxParallel",
                json!({"perTopologyKey": {"key": "a b", "nodes": 1}}),
                "Invalid spec.maxParallel.perTopologyKey.key",
            ),
        ];
        for (pointer, value, expected) in table {
            let mut spec = good();
            *spec.pointer_mut(pointer).unwrap() = value.clone();
            assert_eq!(brief(&validate_node_evacuation(&drain(&spec))), [*expected], "{pointer} = {value}");
        }
        let mut long = drain(&good());
        long.metadata.name = Some("a".repeat(241));
        assert_eq!(brief(&validate_node_evacuation(&long)), ["TooLong metadata.name"]);
    }

    #[test]
    fn the_nodes_are_immutable_and_the_rest_may_change() {
        let old = drain(&good());
        let mut new = old.clone();
        new.spec.paused = true;
        new.spec.requester.deadline_seconds = Some(120);
        assert_eq!(validate_node_evacuation_update(&new, &old), []);
        new.spec.nodes.names.pop();
        assert_eq!(brief(&validate_node_evacuation_update(&new, &old)), ["Invalid spec.nodes"]);
    }
}
