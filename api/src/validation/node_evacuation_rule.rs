//! Validation of the NodeEvacuationRule.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use machinery_validation::{FieldError, FieldErrorKind, FieldPath, label_key};

use super::{
    evacuation::MAX_SECONDS,
    node_evacuation::validate_spec,
    selector::validate_selector,
    text::{Errors, is_dns_label},
};
use crate::{
    CORDONED_BY_ANNOTATION, ConditionPattern, DRAIN_IN_PROGRESS, DRAINED, DUE_TAINT, NodeEvacuationRule,
    NodeEvacuationRuleSpec, NodeMarkPattern, NoticeDeadline, NoticeTime, TaintPattern,
};

/// Maximum length of a rule's name: the names of its NodeEvacuations begin with it.
pub const MAX_RULE_NAME_LENGTH: usize = 63;
/// Maximum number of marks.
pub const MAX_MARKS: usize = 16;

/// Marks that the drains themselves set, the conditions of a drain whoever carries it out, and the taint that
/// follows from each cordon.
const OWN_MARKS: [&str; 5] =
    [DUE_TAINT, CORDONED_BY_ANNOTATION, DRAIN_IN_PROGRESS, DRAINED, "node.kubernetes.io/unschedulable"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];

/// Returns every problem of a NodeEvacuationRule.
pub fn validate_node_evacuation_rule(rule: &NodeEvacuationRule) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let name = FieldPath::new("metadata").child("name");
    if rule.metadata.name.as_deref().is_some_and(|name| !is_dns_label(name)) {
        let why = format!(
            "must be a DNS label of at most {MAX_RULE_NAME_LENGTH} bytes: lower-case letters, digits and '-'"
        );
        errors.invalid(name, why);
    }
    validate_rule(&mut errors, &FieldPath::new("spec"), &rule.spec);
    errors.0
}

fn validate_rule(errors: &mut Errors, path: &FieldPath, spec: &NodeEvacuationRuleSpec) {
    let marks = path.child("marks");
    if spec.marks.is_empty() {
        errors.add(FieldErrorKind::Required, marks.clone(), "needs at least one mark");
    }
    if spec.marks.len() > MAX_MARKS {
        let message = format!("must have at most {MAX_MARKS} items, has {}", spec.marks.len());
        errors.add(FieldErrorKind::TooMany, marks.clone(), message);
    }
    for (i, mark) in spec.marks.iter().enumerate() {
        validate_mark(errors, &marks.index(i), mark);
    }
    if let Some(selector) = &spec.node_selector {
        validate_selector(errors, &path.child("nodeSelector"), selector);
    }
    let template = path.child("template");
    if let Some(deadline) = &spec.deadline {
        validate_deadline(errors, &path.child("deadline"), deadline);
        if spec.template.requester.window.is_some() {
            let field = template.child("requester").child("window");
            errors.add(FieldErrorKind::Forbidden, field, "may not be given together with spec.deadline");
        }
    }
    if let Some(most) = &spec.max_nodes
        && nodes_allowed(most, 100).is_none()
    {
        let message = "must be a number of at least 1, or a percentage from 1% to 100%";
        errors.invalid(path.child("maxNodes"), message);
    }
    if let Some(limits) = &spec.template.max_parallel {
        let field = template.child("maxParallel");
        let of_nodes =
            [("nodes", limits.nodes.is_some()), ("perTopologyKey", limits.per_topology_key.is_some())];
        for (name, _) in of_nodes.iter().filter(|(_, given)| *given) {
            let message = "each NodeEvacuation of a rule has one node; spec.maxNodes limits the nodes";
            errors.add(FieldErrorKind::Forbidden, field.child(name), message);
        }
    }
    let mut drain = spec.template.spec_for("node");
    // The rule's deadline is one, too.
    if spec.deadline.is_some() {
        drain.requester.deadline_seconds.get_or_insert_default();
    }
    validate_spec(errors, &template, &drain);
}

/// Returns the number of nodes that a limit allows in a cluster of `nodes`. `None` for one that is no number
/// and no percentage.
pub fn nodes_allowed(limit: &IntOrString, nodes: usize) -> Option<usize> {
    match limit {
        IntOrString::Int(number) => usize::try_from(*number).ok().filter(|number| *number > 0),
        IntOrString::String(text) => {
            let percent: usize = text.strip_suffix('%')?.parse().ok()?;
            (1..=100).contains(&percent).then(|| (nodes * percent).div_ceil(100).max(1))
        }
    }
}

fn validate_mark(errors: &mut Errors, path: &FieldPath, mark: &NodeMarkPattern) {
    let given =
        [mark.taint.is_some(), mark.condition.is_some(), mark.label.is_some(), mark.annotation.is_some()];
    exactly_one(errors, path, &given, "taint, condition, label and annotation");
    for (kind, name, key) in keys(mark).filter(|(_, _, key)| OWN_MARKS.contains(key)) {
        let message = format!("{key:?} is set by drains: the drain of such a rule would keep its own mark");
        errors.add(FieldErrorKind::Forbidden, path.child(kind).child(name), message);
    }
    if let Some(taint) = &mark.taint {
        validate_taint(errors, &path.child("taint"), taint);
    }
    if let Some(condition) = &mark.condition {
        validate_condition(errors, &path.child("condition"), condition);
    }
    for (name, pattern) in [("label", &mark.label), ("annotation", &mark.annotation)] {
        if let Some(pattern) = pattern {
            validate_key(errors, &path.child(name).child("key"), &pattern.key);
        }
    }
}

/// Returns the key of each given mark, with its field.
fn keys(mark: &NodeMarkPattern) -> impl Iterator<Item = (&'static str, &'static str, &str)> {
    [
        mark.taint.as_ref().map(|taint| ("taint", "key", taint.key.as_str())),
        mark.condition.as_ref().map(|condition| ("condition", "type", condition.type_.as_str())),
        mark.label.as_ref().map(|label| ("label", "key", label.key.as_str())),
        mark.annotation.as_ref().map(|annotation| ("annotation", "key", annotation.key.as_str())),
    ]
    .into_iter()
    .flatten()
}

fn validate_taint(errors: &mut Errors, path: &FieldPath, taint: &TaintPattern) {
    validate_key(errors, &path.child("key"), &taint.key);
    if let Some(effect) = &taint.effect {
        one_of(errors, path.child("effect"), effect, &EFFECTS);
    }
}

fn validate_condition(errors: &mut Errors, path: &FieldPath, condition: &ConditionPattern) {
    validate_key(errors, &path.child("type"), &condition.type_);
    if let Some(status) = &condition.status {
        one_of(errors, path.child("status"), status, &STATUSES);
    }
    errors.within(path.child("forSeconds"), condition.for_seconds, 0, MAX_SECONDS);
}

fn validate_deadline(errors: &mut Errors, path: &FieldPath, deadline: &NoticeDeadline) {
    if deadline.from.is_none() && deadline.after_seconds.is_none() {
        errors.add(FieldErrorKind::Required, path.clone(), "needs from or afterSeconds");
    }
    if let Some(from) = &deadline.from {
        validate_notice_time(errors, &path.child("from"), from);
    }
    errors.within(path.child("afterSeconds"), deadline.after_seconds, 0, MAX_SECONDS);
    errors.within(path.child("defaultSeconds"), deadline.default_seconds, 0, MAX_SECONDS);
    if deadline.default_seconds.is_some() && deadline.from.is_none() {
        let message = "may only be given together with from";
        errors.add(FieldErrorKind::Forbidden, path.child("defaultSeconds"), message);
    }
    errors.within(path.child("reserveSeconds"), deadline.reserve_seconds, 0, MAX_SECONDS);
}

fn validate_notice_time(errors: &mut Errors, path: &FieldPath, from: &NoticeTime) {
    let places = [("annotation", &from.annotation), ("label", &from.label), ("taint", &from.taint)];
    exactly_one(errors, path, &places.map(|(_, key)| key.is_some()), "annotation, label and taint");
    for (name, key) in places {
        if let Some(key) = key {
            validate_key(errors, &path.child(name), key);
        }
    }
}

fn validate_key(errors: &mut Errors, field: &FieldPath, key: &str) {
    errors.0.extend(label_key(key).iter().map(|problem| FieldError::invalid(field, key, problem)));
}

fn exactly_one(errors: &mut Errors, path: &FieldPath, given: &[bool], names: &str) {
    if given.iter().filter(|given| **given).count() != 1 {
        errors.add(FieldErrorKind::Required, path.clone(), format!("needs exactly one of {names}"));
    }
}

fn one_of(errors: &mut Errors, field: FieldPath, value: &str, known: &[&str]) {
    if !known.contains(&value) {
        let message = format!("{value:?} is not one of {}", known.join(", "));
        errors.add(FieldErrorKind::NotSupported, field, message);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::default_node_evacuation_rule;

    fn rule(spec: &Value) -> NodeEvacuationRule {
        serde_json::from_value(json!({"metadata": {"name": "spot"}, "spec": spec})).unwrap()
    }

    fn good() -> Value {
        json!({
            "marks": [
                {"taint": {"key": "example.com/spot", "effect": "NoSchedule"}},
                {"condition": {"type": "Ready", "status": "Unknown", "forSeconds": 60}},
                {"label": {"key": "example.com/retire", "value": "yes"}},
                {"annotation": {"key": "example.com/reboot"}},
            ],
            "nodeSelector": {"matchLabels": {"pool": "a"}},
            "deadline": {
                "from": {"annotation": "example.com/at"},
                "afterSeconds": 120, "defaultSeconds": 600, "reserveSeconds": 30,
            },
            "maxNodes": "20%",
            "template": {"requester": {"atDeadline": "Delete"}, "maxParallel": {"pods": 5}},
        })
    }

    /// Each error as `KIND FIELD`.
    fn brief(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(|e| format!("{:?} {}", e.kind, e.field)).collect()
    }

    #[test]
    fn a_rule_with_every_field_is_valid_also_after_its_defaults() {
        let mut rule = rule(&good());
        assert_eq!(validate_node_evacuation_rule(&rule), []);
        default_node_evacuation_rule(&mut rule);
        assert_eq!(validate_node_evacuation_rule(&rule), []);
    }

    #[test]
    fn each_field_is_checked_on_its_own() {
        let table: &[(&str, Value, &str)] = &[
            ("/marks", json!([]), "Required spec.marks"),
            ("/marks", json!(vec![json!({"label": {"key": "a"}}); 17]), "TooMany spec.marks"),
            ("/marks/0", json!({}), "Required spec.marks[0]"),
            (
                "/marks/0",
                json!({"label": {"key": "a"}, "annotation": {"key": "b"}}),
                "Required spec.marks[0]",
            ),
            ("/marks/0", json!({"taint": {"key": "a b"}}), "Invalid spec.marks[0].taint.key"),
            (
                "/marks/0",
                json!({"condition": {"type": "DrainInProgress"}}),
                "Forbidden spec.marks[0].condition.type",
            ),
            ("/marks/0", json!({"taint": {"key": DUE_TAINT}}), "Forbidden spec.marks[0].taint.key"),
            (
                "/marks/0",
                json!({"taint": {"key": "a", "effect": "Never"}}),
                "NotSupported spec.marks[0].taint.effect",
            ),
            ("/marks/1/condition/status", json!("Perhaps"), "NotSupported spec.marks[1].condition.status"),
            ("/marks/1/condition/forSeconds", json!(-1), "Invalid spec.marks[1].condition.forSeconds"),
            ("/marks/2/label/key", json!("-"), "Invalid spec.marks[2].label.key"),
            ("/deadline", json!({}), "Required spec.deadline"),
            ("/deadline/from", json!({"label": "a", "taint": "b"}), "Required spec.deadline.from"),
            ("/deadline/from/annotation", json!("a b"), "Invalid spec.deadline.from.annotation"),
            ("/deadline/reserveSeconds", json!(-1), "Invalid spec.deadline.reserveSeconds"),
            ("/deadline/defaultSeconds", json!(-1), "Invalid spec.deadline.defaultSeconds"),
            ("/deadline/defaultSeconds", json!(1_i64 << 31), "Invalid spec.deadline.defaultSeconds"),
            ("/deadline/defaultSeconds", json!(0), ""),
            (
                "/deadline",
                json!({"afterSeconds": 1, "defaultSeconds": 1}),
                "Forbidden spec.deadline.defaultSeconds",
            ),
            (
                "/deadline",
                json!({"defaultSeconds": 1}),
                "Required spec.deadline Forbidden spec.deadline.defaultSeconds",
            ),
            ("/maxNodes", json!(0), "Invalid spec.maxNodes"),
            ("/maxNodes", json!("0%"), "Invalid spec.maxNodes"),
            ("/maxNodes", json!("101%"), "Invalid spec.maxNodes"),
            ("/maxNodes", json!("ten"), "Invalid spec.maxNodes"),
            ("/template/maxParallel", json!({"nodes": 1}), "Forbidden spec.template.maxParallel.nodes"),
            ("/template/requester/atDeadline", json!("Evict"), ""),
            (
                "/template/requester",
                json!({"gracePeriodSeconds": -1}),
                "Invalid spec.template.requester.gracePeriodSeconds",
            ),
            (
                "/template/requester",
                json!({"window": {"schedule": "0 1 * * *", "durationSeconds": 3600}}),
                "Forbidden spec.template.requester.window",
            ),
        ];
        for (pointer, value, expected) in table {
            let mut spec = good();
            *spec.pointer_mut(pointer).unwrap() = value.clone();
            let errors = brief(&validate_node_evacuation_rule(&rule(&spec)));
            assert_eq!(errors.join(" "), *expected, "{pointer} = {value}");
        }
        for name in ["a.b", "A", &"a".repeat(64)] {
            let mut named = rule(&good());
            named.metadata.name = Some((*name).to_owned());
            assert_eq!(brief(&validate_node_evacuation_rule(&named)), ["Invalid metadata.name"], "{name}");
        }
    }

    #[test]
    fn a_limit_is_a_number_or_a_share_of_at_least_one_node() {
        let percent = |text: &str| IntOrString::String(text.to_owned());
        for (limit, nodes, allowed) in [
            (IntOrString::Int(3), 100, Some(3)),
            (IntOrString::Int(0), 100, None),
            (percent("10%"), 100, Some(10)),
            (percent("10%"), 101, Some(11)),
            (percent("10%"), 3, Some(1)),
            (percent("10%"), 0, Some(1)),
            (percent("100%"), 7, Some(7)),
            (percent("10"), 100, None),
            (percent("-1%"), 100, None),
        ] {
            assert_eq!(nodes_allowed(&limit, nodes), allowed, "{limit:?} of {nodes}");
        }
    }
}
