//! Fixtures that the tests of the built-in responders share.

use chrono::{DateTime, Utc};
use evacuation_api::{Evacuation, Timestamp};
use serde_json::{Value, json};

/// Returns the time that number of seconds after the responder was asked.
pub(crate) fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
}

/// Returns the same time as text.
pub(crate) fn time(seconds: i64) -> String {
    Timestamp(at(seconds)).to_string()
}

/// Merges `patch` into `into`.
pub(crate) fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

/// Returns an Evacuation of pod `p` of UID `p1` that asks the responder of that name, merged with `patch`.
pub(crate) fn evacuation(name: &str, responder: &str, patch: &Value) -> Evacuation {
    let mut responder = json!({"name": responder, "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 86400,
        "state": "Active", "activeTime": time(0)});
    merge(&mut responder, patch);
    serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("{name}-uid"), "resourceVersion": "1"},
        "spec": {"target": {"pod": {"name": "p", "uid": "p1"}}},
        "status": {"responders": [responder]},
    }))
    .unwrap()
}

/// Returns the same Evacuation, ended with that condition.
pub(crate) fn ended(name: &str, responder: &str, condition: &str, patch: &Value) -> Evacuation {
    let mut ended = evacuation(name, responder, patch);
    let conditions = [condition, "Finished"].map(|kind| {
        json!({"type": kind, "status": "True", "reason": "x", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    });
    ended.status.as_mut().unwrap().conditions = serde_json::from_value(json!(conditions)).unwrap();
    ended
}
