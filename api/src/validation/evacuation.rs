//! Validation of the Evacuation.

use std::collections::{HashMap, HashSet};

use machinery_validation::{FieldError, FieldErrorKind, FieldPath};

use super::{
    text::{Errors, is_dns_subdomain},
    window::validate_window,
};
use crate::{DeadlineAction, Evacuation, EvacuationSpec, Requester};

/// Maximum number of entries in `spec.requesters`, unless a holder of the verb `override` adds more.
pub const MAX_REQUESTERS: usize = 32;
/// Maximum number of entries of one owner: a quarter, so that no owner excludes another.
pub const MAX_REQUESTERS_PER_OWNER: usize = MAX_REQUESTERS / 4;
/// Number of entries above [`MAX_REQUESTERS`] that only holders of the verb `override` can add.
pub const RESERVED_REQUESTERS: usize = 8;
/// Maximum length of an owner's name, in bytes.
pub const MAX_OWNER_LENGTH: usize = 1024;

/// Maximum of `callerDeletesWithinSeconds`: twice the longest Retry-After of the gateway. A pod whose app
/// accepted stays no longer for a caller that does not come back.
pub const MAX_CALLER_DELETES_SECONDS: i64 = 120;

/// Maximum of every number of seconds: 68 years, short enough to add to any time.
pub(super) const MAX_SECONDS: i64 = i32::MAX as i64;

/// Returns every problem of a new Evacuation.
pub fn validate_evacuation(evacuation: &Evacuation) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = FieldPath::new("spec");
    if evacuation.spec.requesters.is_empty() {
        errors.add(FieldErrorKind::Required, spec.child("requesters"), "at least one requester is required");
    }
    validate_spec(&mut errors, &spec, &evacuation.spec, &[]);
    errors.0
}

/// Returns every problem of a change of an Evacuation. The new one may have no requesters left: that cancels
/// it.
pub fn validate_evacuation_update(evacuation: &Evacuation, old: &Evacuation) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let spec = FieldPath::new("spec");
    if evacuation.spec.target != old.spec.target {
        errors.add(FieldErrorKind::Invalid, spec.child("target"), "field is immutable");
    }
    if evacuation.spec.rehearsal != old.spec.rehearsal {
        errors.add(FieldErrorKind::Invalid, spec.child("rehearsal"), "field is immutable");
    }
    validate_spec(&mut errors, &spec, &evacuation.spec, &old.spec.requesters);
    errors.0
}

fn validate_spec(errors: &mut Errors, path: &FieldPath, spec: &EvacuationSpec, before: &[Requester]) {
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
    validate_count(errors, &requesters, &spec.requesters, before);
    let mut keys = HashSet::new();
    for (i, requester) in spec.requesters.iter().enumerate() {
        let path = requesters.index(i);
        if !keys.insert(requester.key()) {
            let message = format!("owner {:?} has another entry named {:?}", requester.owner, requester.name);
            errors.add(FieldErrorKind::Duplicate, path.child("name"), message);
        }
        validate_requester(errors, &path, requester);
    }
    if spec.rehearsal {
        validate_rehearsal(errors, &requesters, &spec.requesters);
    }
}

/// Checks that a rehearsal belongs to one requester, ends by itself and never evicts.
fn validate_rehearsal(errors: &mut Errors, path: &FieldPath, requesters: &[Requester]) {
    if requesters.len() > 1 {
        let message = format!("a rehearsal has one requester, not {}", requesters.len());
        errors.add(FieldErrorKind::TooMany, path.clone(), message);
    }
    for (i, requester) in requesters.iter().enumerate() {
        let path = path.index(i);
        if requester.deadline.is_none() {
            errors.add(FieldErrorKind::Required, path.child("deadline"), "a rehearsal needs a deadline");
        }
        if let Some(action) = requester.at_deadline.filter(|action| *action != DeadlineAction::GiveUp) {
            let message = format!("a rehearsal evicts nothing: must be GiveUp, not {action:?}");
            errors.invalid(path.child("atDeadline"), message);
        }
        if requester.window.is_some() {
            let message = "a rehearsal asks at once, without a window";
            errors.add(FieldErrorKind::Forbidden, path.child("window"), message);
        }
    }
}

/// Checks the number of entries: of all owners together, and of each one. An owner with too many may keep
/// them.
fn validate_count(errors: &mut Errors, path: &FieldPath, entries: &[Requester], before: &[Requester]) {
    let most = MAX_REQUESTERS + RESERVED_REQUESTERS;
    if entries.len() > most.max(before.len()) {
        let message = format!("must have at most {most} items, has {}", entries.len());
        errors.add(FieldErrorKind::TooMany, path.clone(), message);
    }
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for entry in entries {
        *counts.entry(entry.owner.as_str()).or_default() += 1;
    }
    let had = |owner: &str| before.iter().filter(|entry| entry.owner == owner).count();
    let over = |(owner, count): &(&str, usize)| *count > MAX_REQUESTERS_PER_OWNER.max(had(owner));
    let mut owners: Vec<_> = counts.into_iter().filter(over).collect();
    owners.sort_unstable();
    for (owner, count) in owners {
        let message =
            format!("must have at most {MAX_REQUESTERS_PER_OWNER} items of owner {owner:?}, has {count}");
        errors.add(FieldErrorKind::TooMany, path.clone(), message);
    }
}

fn validate_requester(errors: &mut Errors, path: &FieldPath, requester: &Requester) {
    if requester.owner.len() > MAX_OWNER_LENGTH {
        let message = format!("must have at most {MAX_OWNER_LENGTH} bytes");
        errors.add(FieldErrorKind::TooLong, path.child("owner"), message);
    } else if requester.owner.chars().any(char::is_control) {
        errors.invalid(path.child("owner"), "must not hold control characters");
    }
    errors.qualified_name(path.child("name"), &requester.name);
    errors.reason(path.child("reason"), requester.reason.as_deref());
    errors.message(path.child("message"), requester.message.as_deref());
    errors.within(path.child("gracePeriodSeconds"), requester.grace_period_seconds, 0, MAX_SECONDS);
    errors.within(path.child("budgetPatienceSeconds"), requester.budget_patience_seconds, 0, MAX_SECONDS);
    let within = requester.caller_deletes_within_seconds;
    errors.within(path.child("callerDeletesWithinSeconds"), within, 0, MAX_CALLER_DELETES_SECONDS);
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
                json!({"name": "a.b/c", "budgetPatienceSeconds": -1}),
                "Invalid spec.requesters[0].budgetPatienceSeconds",
            ),
            (
                "/requesters/0",
                json!({"name": "a.b/c", "callerDeletesWithinSeconds": 121}),
                "Invalid spec.requesters[0].callerDeletesWithinSeconds",
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

    /// Entries of these owners, as many of each as the number says.
    fn entries(counts: &[(&str, usize)]) -> Value {
        let of = |(owner, count): &(&str, usize)| {
            let entry = |n| json!({"owner": owner, "name": format!("a.b/r{n}")});
            (0..*count).map(entry).collect::<Vec<_>>()
        };
        json!(counts.iter().flat_map(of).collect::<Vec<_>>())
    }

    #[test]
    fn no_owner_has_more_than_a_quarter_of_the_entries() {
        let mut spec = good();
        for (counts, expected) in [
            (&[("ann", 8)][..], &[][..]),
            (&[("ann", 9)], &["TooMany spec.requesters"]),
            (&[("ann", 8), ("bob", 8), ("cat", 8), ("dan", 8)], &[]),
            (&[("ann", 8), ("bob", 8), ("cat", 8), ("dan", 8), ("eve", 8)], &[]),
            (
                &[("ann", 8), ("bob", 8), ("cat", 8), ("dan", 8), ("eve", 8), ("fay", 1)],
                &["TooMany spec.requesters"],
            ),
        ] {
            spec["requesters"] = entries(counts);
            assert_eq!(brief(&validate_evacuation(&evacuation(&spec))), expected, "{counts:?}");
        }
    }

    #[test]
    fn an_owner_with_too_many_entries_can_leave_one_by_one_and_keeps_nobody_from_joining() {
        let mut spec = good();
        let mut with = |counts: &[(&str, usize)]| {
            spec["requesters"] = entries(counts);
            evacuation(&spec)
        };
        let old = with(&[("ann", 12)]);
        assert_eq!(validate_evacuation_update(&with(&[("ann", 11)]), &old), []);
        assert_eq!(validate_evacuation_update(&with(&[("ann", 12), ("bob", 1)]), &old), []);
        let more = validate_evacuation_update(&with(&[("ann", 13)]), &old);
        assert_eq!(brief(&more), ["TooMany spec.requesters"]);
    }

    #[test]
    fn two_owners_can_use_one_name_and_one_owner_cannot_use_it_twice() {
        let mut spec = good();
        spec["requesters"] = json!([{"owner": "ann", "name": "a.b/c"}, {"owner": "bob", "name": "a.b/c"}]);
        assert_eq!(validate_evacuation(&evacuation(&spec)), []);
        spec["requesters"][1]["owner"] = json!("ann");
        assert_eq!(brief(&validate_evacuation(&evacuation(&spec))), ["Duplicate spec.requesters[1].name"]);
    }

    #[test]
    fn an_owner_is_bounded_and_cannot_steer_a_terminal() {
        for (owner, expected) in [
            ("x".repeat(1024), &[][..]),
            ("x".repeat(1025), &["TooLong spec.requesters[0].owner"]),
            ("\u{1b}[2J".to_owned(), &["Invalid spec.requesters[0].owner"]),
        ] {
            let mut spec = good();
            spec["requesters"][0]["owner"] = json!(owner);
            assert_eq!(brief(&validate_evacuation(&evacuation(&spec))), expected, "{owner:?}");
        }
    }

    #[test]
    fn a_rehearsal_has_one_requester_that_gives_up_at_its_deadline() {
        let entry = |more: Value| {
            let mut entry =
                json!({"name": "a.b/c", "deadline": "2026-11-25T03:00:00Z", "atDeadline": "GiveUp"});
            entry.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
            entry
        };
        let window = json!({"window": {"schedule": "0 3 * * *", "durationSeconds": 60}});
        let table = [
            (vec![entry(json!({}))], vec![]),
            (vec![json!({"name": "a.b/c"})], vec!["Required spec.requesters[0].deadline"]),
            (vec![entry(json!({"atDeadline": "Evict"}))], vec!["Invalid spec.requesters[0].atDeadline"]),
            (vec![entry(json!({"atDeadline": "Delete"}))], vec!["Invalid spec.requesters[0].atDeadline"]),
            (vec![entry(window)], vec!["Forbidden spec.requesters[0].window"]),
            (vec![entry(json!({})), entry(json!({"name": "a.b/d"}))], vec!["TooMany spec.requesters"]),
        ];
        for (entries, expected) in table {
            let mut spec = good();
            spec["rehearsal"] = json!(true);
            spec["requesters"] = json!(entries);
            assert_eq!(brief(&validate_evacuation(&evacuation(&spec))), expected, "{spec}");
            spec["rehearsal"] = json!(false);
            assert_eq!(validate_evacuation(&evacuation(&spec)), [], "{spec}");
        }
    }

    #[test]
    fn a_rehearsal_never_becomes_a_request() {
        let old = evacuation(&good());
        let mut new = old.clone();
        new.spec.rehearsal = true;
        new.spec.requesters[0].deadline = Some(chrono::DateTime::UNIX_EPOCH.into());
        new.spec.requesters[0].at_deadline = Some(DeadlineAction::GiveUp);
        assert_eq!(brief(&validate_evacuation_update(&new, &old)), ["Invalid spec.rehearsal"]);
        assert_eq!(brief(&validate_evacuation_update(&old, &new)), ["Invalid spec.rehearsal"]);
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
