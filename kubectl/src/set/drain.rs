//! The request of a drain.

use anyhow::{Context, bail};
use chrono::{DateTime, TimeDelta, Utc};
use evacuation_api::{DeadlineAction, NodeEvacuation};
use evacuation_protocol::{drain_entry, drain_start};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::settings::{Settings, rule_words, words};
use crate::{duration::whole_seconds, label_selector, moment::Now};

/// Changes the request of a drain, and returns the drain.
pub(super) async fn change(
    api: &Api<NodeEvacuation>,
    drain: &NodeEvacuation,
    settings: &Settings,
    now: DateTime<Utc>,
) -> anyhow::Result<NodeEvacuation> {
    let name = drain.name_any();
    if settings.at_deadline.is_some()
        && settings.deadline.is_none()
        && drain.spec.requester.deadline_seconds.is_none()
    {
        bail!("nodeevacuation {name} has no deadline: add --deadline");
    }
    let seconds = deadline_seconds(drain, settings, now)?;
    let fields = settings.fields(seconds.map(|seconds| ("deadlineSeconds", json!(seconds))));
    let spec = json!({"requester": fields, "pods": settings.pod_rules()});
    let patch = json!({"metadata": {"uid": drain.uid()}, "spec": spec});
    let changed = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
    changed.with_context(|| format!("nodeevacuation {name} cannot be changed"))
}

/// Returns `deadlineSeconds`, which counts from the start of the drain, for a deadline that counts from now.
/// Of a drain that waits for its window, both count from its opening.
fn deadline_seconds(
    drain: &NodeEvacuation,
    settings: &Settings,
    now: DateTime<Utc>,
) -> anyhow::Result<Option<i64>> {
    let Some(after) = settings.deadline else { return Ok(None) };
    let start = drain_start(drain)
        .with_context(|| format!("the window of nodeevacuation {} never opens", drain.name_any()))?;
    let age = (now - start).max(TimeDelta::zero()).to_std().unwrap_or_default();
    Ok(Some(whole_seconds(age.saturating_add(after))))
}

/// Returns the settings of a drain in words.
pub(super) fn settings(drain: &NodeEvacuation, now: Now) -> String {
    let entry = drain_entry(drain);
    let wanted = &drain.spec.requester;
    let request = words(
        now,
        entry.and_then(|entry| entry.deadline),
        wanted.at_deadline.unwrap_or_default(),
        wanted.on_refusal.unwrap_or_default(),
        wanted.grace_period_seconds,
    );
    format!("{request}{}", rule_words(&drain.spec.pods))
}

/// Returns the limits of a change that the user may not expect.
pub(super) fn notes(old: &NodeEvacuation, new: &NodeEvacuation, now: Now) -> Vec<String> {
    let mut notes = Vec::new();
    let (was, is) = (&old.spec.requester, &new.spec.requester);
    let reached = drain_entry(old).and_then(|entry| entry.deadline).filter(|time| time.time() <= now.time);
    let (before, after) = (was.at_deadline.unwrap_or_default(), is.at_deadline.unwrap_or_default());
    if let Some(time) = reached.filter(|_| before == after && before != DeadlineAction::GiveUp) {
        notes.push(format!(
            "the deadline {} was reached, and stays reached for the pods that were asked before it",
            now.at(time.time())
        ));
    }
    let selector =
        old.spec.pods.selector.as_ref().filter(|_| old.spec.pods.selector != new.spec.pods.selector);
    if let Some(selector) = selector {
        notes.push(format!("it asked only pods with {} before", label_selector::text(selector)));
    }
    let left = new.status.iter().flat_map(|status| &status.left_alone).count();
    if left > 0 {
        let name = new.name_any();
        notes.push(format!(
            "{left} of its pods {} left alone and {} not asked again by this drain; to ask again: kubectl \
             evacuate cancel {name}, and drain again",
            if left == 1 { "was" } else { "were" },
            if left == 1 { "is" } else { "are" },
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::requester_flags::AtDeadline;

    fn drain(requester: &Value, left_alone: &Value) -> NodeEvacuation {
        serde_json::from_value(json!({
            "metadata": {"name": "d", "uid": "0123456789", "creationTimestamp": "1970-01-01T00:01:00Z"},
            "spec": {"nodes": {"names": ["a"]}, "requester": requester},
            "status": {"requester": {"user": "alice", "time": "1970-01-01T00:01:00Z"}, "leftAlone": left_alone},
        }))
        .unwrap()
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    #[test]
    fn a_deadline_counts_from_now_and_that_of_a_drain_before_its_window_from_the_opening() {
        let settings = Settings { deadline: Some(Duration::from_mins(10)), ..Settings::default() };
        let seconds = |drain: &NodeEvacuation, now| deadline_seconds(drain, &settings, at(now)).unwrap();
        let running = drain(&json!({}), &json!([]));
        assert_eq!(seconds(&running, 160), Some(700), "100 s after its start");
        let window = json!({"schedule": "0 22 * * *", "durationSeconds": 3600});
        assert_eq!(seconds(&drain(&json!({"window": window}), &json!([])), 160), Some(600));
        assert_eq!(deadline_seconds(&running, &Settings::default(), at(160)).unwrap(), None);
    }

    #[test]
    fn what_a_change_does_not_undo_is_said() {
        let left = json!([{"uid": "u", "node": "a", "pod": "shop/db-0", "evacuation": "e", "since": "1970-01-01T00:02:00Z"}]);
        let of = |action: &str| drain(&json!({"deadlineSeconds": 60, "atDeadline": action}), &left);
        let now = |seconds| Now { time: at(seconds), led: true };
        let told = notes(&of("Evict"), &of("Evict"), now(120));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("the deadline 00:02:00Z (0 s ago) was reached"), "{told:?}");
        assert!(told[1].starts_with("1 of its pods was left alone and is not asked"), "{told:?}");
        assert_eq!(notes(&of("Evict"), &of("Delete"), now(120)).len(), 1, "a harder action acts");
        let mut chosen = drain(&json!({}), &json!([]));
        chosen.spec.pods.selector = serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
        let replaced = notes(&chosen, &drain(&json!({}), &json!([])), now(0));
        assert_eq!(replaced, ["it asked only pods with app=web before"]);
        assert_eq!(notes(&chosen, &chosen, now(0)), [""; 0]);
        assert_eq!(notes(&of("Evict"), &drain(&json!({}), &json!([])), now(119)), [""; 0]);
    }

    #[tokio::test]
    async fn an_action_without_a_deadline_is_refused_before_anything_is_sent() {
        let client =
            kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let settings = Settings { at_deadline: Some(AtDeadline::Delete), ..Settings::default() };
        let changed = change(&Api::all(client), &drain(&json!({}), &json!([])), &settings, at(0)).await;
        assert_eq!(changed.unwrap_err().to_string(), "nodeevacuation d has no deadline: add --deadline");
    }
}
