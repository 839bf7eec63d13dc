//! The Evacuation.

use std::collections::HashSet;

use machinery_validation::{FieldError, FieldErrorKind, FieldPath};

use super::{
    text::{Errors, is_dns_subdomain},
    window::validate_window,
};
use crate::{Evacuation, EvacuationSpec, Requester};

/// How many requesters one Evacuation can have.
pub const MAX_REQUESTERS: usize = 32;

/// Longer than any sensible time, and short enough to add to any other: 68 years in seconds.
const MAX_SECONDS: i64 = i32::MAX as i64;

/// What is wrong with a new Evacuation, all of it.
pub fn validate_evacuation(evacuation: &Evacuation) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = FieldPath::new("spec");
    if evacuation.spec.requesters.is_empty() {
        errors.add(FieldErrorKind::Required, spec.child("requesters"), "at least one requester is required");
    }
    validate_spec(&mut errors, &spec, &evacuation.spec);
    errors.0
}

/// What is wrong with a change of an Evacuation, all of it. The new one may have no requesters left: that cancels it.
pub fn validate_evacuation_update(evacuation: &Evacuation, old: &Evacuation) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = FieldPath::new("spec");
    if evacuation.spec.target != old.spec.target {
        errors.add(FieldErrorKind::Invalid, spec.child("target"), "field is immutable");
    }
    validate_spec(&mut errors, &spec, &evacuation.spec);
    errors.0
}

fn validate_spec(errors: &mut Errors, path: &FieldPath, spec: &EvacuationSpec) {
    let pod = path.child("target").child("pod");
    let target = &spec.target.pod;
    if target.name.is_empty() {
        errors.add(FieldErrorKind::Required, pod.child("name"), "the pod's name is required");
    } else if !is_dns_subdomain(&target.name) {
        errors.invalid(pod.child("name"), format!("{:?} is not the name of a pod", target.name));
    }
    if target.uid.as_ref().is_some_and(|uid| uid.is_empty() || uid.len() > 128) {
        errors.invalid(pod.child("uid"), "a UID has 1 to 128 bytes");
    }
    errors.within(path.child("ttlSecondsAfterFinished"), spec.ttl_seconds_after_finished, 0, MAX_SECONDS);

    let requesters = path.child("requesters");
    if spec.requesters.len() > MAX_REQUESTERS {
        errors.add(
            FieldErrorKind::TooMany,
            requesters.clone(),
            format!("must have at most {MAX_REQUESTERS} items, has {}", spec.requesters.len()),
        );
    }
    let mut names = HashSet::new();
    for (i, requester) in spec.requesters.iter().enumerate() {
        let path = requesters.index(i);
        if !names.insert(requester.name.as_str()) {
            errors.add(
                FieldErrorKind::Duplicate,
                path.child("name"),
                format!("{:?} occurs twice", requester.name),
            );
        }
        validate_requester(errors, &path, requester);
    }
}

fn validate_requester(errors: &mut Errors, path: &FieldPath, requester: &Requester) {
    errors.qualified_name(path.child("name"), &requester.name);
    errors.reason(path.child("reason"), requester.reason.as_deref());
    errors.message(path.child("message"), requester.message.as_deref());
    errors.within(path.child("gracePeriodSeconds"), requester.grace_period_seconds, 0, MAX_SECONDS);
    if requester.at_deadline.is_some() && requester.deadline.is_none() {
        errors.add(FieldErrorKind::Required, path.child("deadline"), "atDeadline needs a deadline");
    }
    if let Some(window) = &requester.window {
        validate_window(errors, &path.child("window"), window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn evacuation(spec: &Value) -> Evacuation {
        serde_json::from_value(json!({"spec": spec})).unwrap()
    }

    fn good() -> Value {
        json!({"target": {"pod": {"name": "db-0", "uid": "u1"}}, "requesters": [{"name": "a.example.com/x"}]})
    }

    /// Each error as `KIND FIELD`.
    fn brief(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(|e| format!("{:?} {}", e.kind, e.field)).collect()
    }

    #[test]
    fn a_plain_evacuation_is_valid() {
        assert_eq!(validate_evacuation(&evacuation(&good())), []);
    }

    #[test]
    fn each_field_is_checked_on_its_own() {
        let table: &[(&str, Value, &str)] = &[
            ("/target/pod/name", json!(""), "Required spec.target.pod.name"),
            ("/target/pod/name", json!("Db_0"), "Invalid spec.target.pod.name"),
            ("/target/pod/uid", json!(""), "Invalid spec.target.pod.uid"),
            ("/requesters", json!([]), "Required spec.requesters"),
            ("/requesters/0", json!({"name": ""}), "Required spec.requesters[0].name"),
            ("/requesters/0", json!({"name": "drain"}), "Invalid spec.requesters[0].name"),
            (
                "/requesters/0",
                json!({"name": "a.b/c", "reason": "not camel"}),
                "Invalid spec.requesters[0].reason",
            ),
            (
                "/requesters/0",
                json!({"name": "a.b/c", "reason": "A".repeat(129)}),
                "TooLong spec.requesters[0].reason",
            ),
            (
                "/requesters/0",
                json!({"name": "a.b/c", "message": "x".repeat(4097)}),
                "TooLong spec.requesters[0].message",
            ),
            (
                "/requesters/0",
                json!({"name": "a.b/c", "gracePeriodSeconds": -1}),
                "Invalid spec.requesters[0].gracePeriodSeconds",
            ),
            (
                "/requesters/0",
                json!({"name": "a.b/c", "window": {"schedule": "soon", "durationSeconds": 60}}),
                "Invalid spec.requesters[0].window.schedule",
            ),
            (
                "/requesters/0",
                json!({"name": "a.b/c", "atDeadline": "Delete"}),
                "Required spec.requesters[0].deadline",
            ),
        ];
        for (pointer, value, expected) in table {
            let mut spec = good();
            *spec.pointer_mut(pointer).unwrap() = value.clone();
            assert_eq!(brief(&validate_evacuation(&evacuation(&spec))), [*expected], "{pointer} = {value}");
        }
        for ttl in [json!(-1), json!(i64::MAX)] {
            let mut spec = good();
            spec["ttlSecondsAfterFinished"] = ttl;
            assert_eq!(
                brief(&validate_evacuation(&evacuation(&spec))),
                ["Invalid spec.ttlSecondsAfterFinished"]
            );
        }
    }

    #[test]
    fn every_error_is_gathered() {
        let spec = json!({
            "target": {"pod": {"name": ""}},
            "requesters": [{"name": "x", "reason": "x"}, {"name": "a.b/c"}, {"name": "a.b/c", "gracePeriodSeconds": -5}],
        });
        assert_eq!(
            brief(&validate_evacuation(&evacuation(&spec))),
            [
                "Required spec.target.pod.name",
                "Invalid spec.requesters[0].name",
                "Invalid spec.requesters[0].reason",
                "Duplicate spec.requesters[2].name",
                "Invalid spec.requesters[2].gracePeriodSeconds",
            ]
        );
    }

    #[test]
    fn thirty_two_requesters_are_enough() {
        let requesters = |n: usize| (0..n).map(|i| json!({"name": format!("a.b/r{i}")})).collect::<Vec<_>>();
        let mut spec = good();
        spec["requesters"] = json!(requesters(32));
        assert_eq!(validate_evacuation(&evacuation(&spec)), []);
        spec["requesters"] = json!(requesters(33));
        assert_eq!(brief(&validate_evacuation(&evacuation(&spec))), ["TooMany spec.requesters"]);
    }

    #[test]
    fn the_target_is_immutable_and_the_requesters_may_all_leave() {
        let old = evacuation(&good());
        let mut new = old.clone();
        new.spec.requesters.clear();
        assert_eq!(validate_evacuation_update(&new, &old), []);
        new.spec.target.pod.uid = Some("u2".to_owned());
        assert_eq!(brief(&validate_evacuation_update(&new, &old)), ["Invalid spec.target"]);
    }
}
