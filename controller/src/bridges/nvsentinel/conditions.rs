//! Conditions of a DrainRequest. NVSentinel reads `DrainComplete` only; the others are for people.

use chrono::{DateTime, SecondsFormat, Utc};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::bridges::text::fitting;

/// Type of the condition that lets NVSentinel repair the node, such as by a reboot.
const COMPLETE: &str = "DrainComplete";
/// Type of the condition of a request whose pods are asked.
const IN_PROGRESS: &str = "DrainInProgress";
/// Type of the condition of a request that does not complete by itself.
const FAILED: &str = "DrainFailed";

/// State of a DrainRequest: the type that is True, with reason and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    is_true: Option<&'static str>,
    reason: &'static str,
    message: String,
}

impl State {
    /// Returns the state of a request whose pods are gone.
    pub(super) fn complete(reason: &'static str, message: &str) -> Self {
        Self::new(Some(COMPLETE), reason, message)
    }

    /// Returns the state of a request whose pods are asked.
    pub(super) fn in_progress(reason: &'static str, message: &str) -> Self {
        Self::new(Some(IN_PROGRESS), reason, message)
    }

    /// Returns the state of a request that does not complete by itself.
    pub(super) fn failed(reason: &'static str, message: &str) -> Self {
        Self::new(Some(FAILED), reason, message)
    }

    /// Returns the state of a request that asks for nothing now.
    pub(super) fn waiting(reason: &'static str, message: &str) -> Self {
        Self::new(None, reason, message)
    }

    fn new(is_true: Option<&'static str>, reason: &'static str, message: &str) -> Self {
        Self { is_true, reason, message: fitting(message) }
    }

    /// Returns true for the state of a request whose pods are gone.
    pub(super) fn is_complete(&self) -> bool {
        self.is_true == Some(COMPLETE)
    }

    /// Returns true for the state of a request that does not complete by itself.
    pub(super) fn has_failed(&self) -> bool {
        self.is_true == Some(FAILED)
    }

    /// Returns the reason.
    pub(super) fn reason(&self) -> &'static str {
        self.reason
    }

    /// Returns the message.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the conditions of an object in this state. `None` when they are the same. Conditions of other
    /// types stay.
    pub(super) fn conditions(&self, object: &DynamicObject, now: DateTime<Utc>) -> Option<Vec<Value>> {
        let before = conditions(object);
        let mut after = before.to_vec();
        for kind in [IN_PROGRESS, COMPLETE, FAILED] {
            let status = if self.is_true == Some(kind) { "True" } else { "False" };
            let known = before.iter().find(|known| known.get("type") == Some(&json!(kind)));
            let same = known.filter(|known| known.get("status") == Some(&json!(status)));
            let now = now.to_rfc3339_opts(SecondsFormat::Secs, true);
            let time = same.and_then(|same| same.get("lastTransitionTime")).cloned().unwrap_or(json!(now));
            let next = json!({
                "type": kind, "status": status, "reason": self.reason, "message": self.message,
                "lastTransitionTime": time,
            });
            after.retain(|other| other.get("type") != Some(&json!(kind)));
            after.push(next);
        }
        (after != before).then_some(after)
    }
}

/// Returns true when `DrainComplete` is True.
pub(super) fn is_complete(object: &DynamicObject) -> bool {
    is_true(object, COMPLETE)
}

fn is_true(object: &DynamicObject, kind: &str) -> bool {
    let is_kind = |known: &&Value| known.get("type") == Some(&json!(kind));
    let status = conditions(object).iter().find(is_kind).and_then(|known| known.get("status")?.as_str());
    status.is_some_and(|status| status.eq_ignore_ascii_case("true"))
}

fn conditions(object: &DynamicObject) -> &[Value] {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    conditions.map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(conditions: &[Value]) -> DynamicObject {
        let object = json!({"metadata": {"name": "d"}, "status": {"conditions": conditions}});
        serde_json::from_value(object).unwrap()
    }

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap()
    }

    #[test]
    fn one_condition_is_true_and_its_time_is_that_of_the_change() {
        let others = json!({"type": "Seen", "status": "True"});
        let running = State::in_progress("Draining", "2 pods");
        let first = running.conditions(&object(std::slice::from_ref(&others)), at(0)).unwrap();
        assert!(first.contains(&others) && is_true(&object(&first), IN_PROGRESS));
        assert!(!is_complete(&object(&first)));
        assert_eq!(running.conditions(&object(&first), at(5)), None, "nothing changed");
        let second = State::complete("DrainComplete", "").conditions(&object(&first), at(5)).unwrap();
        assert!(is_complete(&object(&second)) && !is_true(&object(&second), IN_PROGRESS));
        let time = |conditions: &[Value], kind: &str| {
            let found = conditions.iter().find(|known| known["type"] == kind).unwrap();
            found["lastTransitionTime"].clone()
        };
        assert_eq!(time(&second, FAILED), time(&first, FAILED));
        assert_ne!(time(&second, COMPLETE), time(&first, COMPLETE));
    }

    #[test]
    fn a_failed_request_is_never_complete() {
        let failed = State::failed("Refused", "shop/db-0").conditions(&object(&[]), at(0)).unwrap();
        assert!(!is_complete(&object(&failed)));
    }
}
