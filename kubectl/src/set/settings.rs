//! The settings of a request that the flags change.

use std::time::Duration;

use anyhow::Context;
use chrono::{DateTime, Utc};
use clap::{ArgAction, Args};
use evacuation_api::{
    DaemonSetRule, DeadlineAction, EmptyDirRule, LateRule, PodRules, RefusalPolicy, UnmanagedRule,
    WholeSecond,
};
use serde_json::{Map, Value, json};

use crate::{
    duration::duration,
    label_selector,
    moment::Now,
    requester_flags::{AtDeadline, OnRefusal},
};

/// The flags, of which at least one is given.
#[derive(Args, Debug, Default)]
#[group(required = true, multiple = true)]
pub(super) struct Settings {
    /// Stop negotiating this long from now, such as 10m or 1h30m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) deadline: Option<Duration>,
    /// Action at the deadline: evict within budgets, delete without regard to budgets, or give up.
    #[arg(long, value_enum, ignore_case = true)]
    pub(super) at_deadline: Option<AtDeadline>,
    /// Consequence of a refusal.
    #[arg(long, value_enum, ignore_case = true)]
    pub(super) on_refusal: Option<OnRefusal>,
    /// The grace period of the eviction, in seconds; the pod's own when negative.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(super) grace_period: Option<i64>,
    /// Of a drain: skip pods whose grace period ended more than this many seconds ago; 0 skips none.
    #[arg(long, value_name = "SECONDS")]
    pub(super) skip_wait_for_delete_timeout: Option<u32>,
    /// Of a drain: leave pods of DaemonSets alone.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    pub(super) ignore_daemonsets: Option<bool>,
    /// Of a drain: ask pods with emptyDir volumes, too, whose data is lost.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    pub(super) delete_emptydir_data: Option<bool>,
    /// Of a drain: ask pods without a controller, too, which nothing creates again.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    pub(super) force: Option<bool>,
    /// Of a drain: leave pods alone that come to a node after its drain began, such as those that tolerate
    /// the cordon.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true)]
    pub(super) skip_late_pods: Option<bool>,
    /// Of a drain: ask only the pods with these labels; all if empty.
    #[arg(long, value_name = "LABELS", value_parser = pod_selector)]
    pub(super) pod_selector: Option<Value>,
}

/// Returns the merge patch of `spec.pods.selector`. Null removes it.
fn pod_selector(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    // The other form of requirements would stay.
    let selector = label_selector::parse(text)?;
    Ok(json!({"matchLabels": null, "matchExpressions": selector.match_expressions}))
}

impl Settings {
    /// Returns the fields to change. `deadline` is the deadline's field, for the deadline that it names.
    pub(super) fn fields(&self, deadline: Option<(&str, Value)>) -> Map<String, Value> {
        let action = self.at_deadline.map(DeadlineAction::from);
        let policy = self.on_refusal.map(RefusalPolicy::from);
        let grace = self.grace_period.map(|seconds| json!((seconds >= 0).then_some(seconds)));
        let deadline = deadline.map(|(field, value)| (field.to_owned(), value));
        let others = [
            ("atDeadline", action.map(|action| json!(action))),
            ("onRefusal", policy.map(|policy| json!(policy))),
            ("gracePeriodSeconds", grace),
        ];
        let others = others.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?)));
        deadline.into_iter().chain(others).collect()
    }

    /// Returns the pod rules of a drain to change. Null removes a field.
    pub(super) fn pod_rules(&self) -> Map<String, Value> {
        let skip = self.skip_wait_for_delete_timeout.map(|seconds| json!((seconds > 0).then_some(seconds)));
        let daemon_sets = self
            .ignore_daemonsets
            .map(|ignore| if ignore { json!(DaemonSetRule::Skip) } else { json!(DaemonSetRule::Refuse) });
        let data = self
            .delete_emptydir_data
            .map(|delete| if delete { json!(EmptyDirRule::Delete) } else { json!(EmptyDirRule::Refuse) });
        let unmanaged = self
            .force
            .map(|force| if force { json!(UnmanagedRule::Evict) } else { json!(UnmanagedRule::Refuse) });
        let late = self
            .skip_late_pods
            .map(|skip| if skip { json!(LateRule::Skip) } else { json!(LateRule::Evacuate) });
        let rules = [
            ("skipTerminatingSeconds", skip),
            ("daemonSets", daemon_sets),
            ("emptyDirData", data),
            ("unmanaged", unmanaged),
            ("late", late),
            ("selector", self.pod_selector.clone()),
        ];
        rules.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?))).collect()
    }

    /// Returns the first flag that is a rule of drains.
    pub(super) fn pod_rule(&self) -> Option<&'static str> {
        let rules = [
            ("--skip-wait-for-delete-timeout", self.skip_wait_for_delete_timeout.is_some()),
            ("--ignore-daemonsets", self.ignore_daemonsets.is_some()),
            ("--delete-emptydir-data", self.delete_emptydir_data.is_some()),
            ("--force", self.force.is_some()),
            ("--skip-late-pods", self.skip_late_pods.is_some()),
            ("--pod-selector", self.pod_selector.is_some()),
        ];
        rules.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
    }

    /// Returns the time of the deadline that the flags name.
    ///
    /// # Errors
    ///
    /// It is beyond all calendars.
    pub(super) fn deadline(&self, now: DateTime<Utc>) -> anyhow::Result<Option<WholeSecond>> {
        let Some(after) = self.deadline else { return Ok(None) };
        let time = chrono::TimeDelta::from_std(after).ok().and_then(|after| now.checked_add_signed(after));
        time.map(|time| Some(time.into())).context("--deadline is beyond all calendars")
    }
}

/// Returns the settings of a request in words.
pub(super) fn words(
    now: Now,
    deadline: Option<WholeSecond>,
    action: DeadlineAction,
    policy: RefusalPolicy,
    grace: Option<i64>,
) -> String {
    let deadline = match deadline {
        Some(time) => format!("deadline {}, then {action:?}", now.at(time.time())),
        None => "no deadline".to_owned(),
    };
    let grace = grace.map(|seconds| format!("; grace period {seconds} s")).unwrap_or_default();
    format!("{deadline}; on refusal {policy:?}{grace}")
}

/// Returns the pod rules of a drain in words. Those that are left out are not named.
pub(super) fn rule_words(rules: &PodRules) -> String {
    let words = [
        rules.daemon_sets.map(|rule| format!("pods of DaemonSets: {rule:?}")),
        rules.empty_dir_data.map(|rule| format!("data of emptyDir volumes: {rule:?}")),
        rules.unmanaged.map(|rule| format!("pods without a controller: {rule:?}")),
        rules.late.map(|rule| format!("late pods: {rule:?}")),
        rules
            .skip_terminating_seconds
            .map(|time| format!("pods are skipped {time} s after their grace period")),
        rules.selector.as_ref().map(|selector| format!("only pods with {}", label_selector::text(selector))),
    ];
    words.into_iter().flatten().fold(String::new(), |all, words| format!("{all}; {words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_in_words_has_its_distance_beside_it() {
        let now = Now { time: "2026-11-20T22:05:00Z".parse().unwrap(), led: true };
        let deadline = Some(WholeSecond::from(now.time + chrono::TimeDelta::minutes(10)));
        let told = words(now, deadline, DeadlineAction::GiveUp, RefusalPolicy::Wait, Some(5));
        assert_eq!(told, "deadline 22:15:00Z (in 10 min), then GiveUp; on refusal Wait; grace period 5 s");
        assert_eq!(
            words(now, None, DeadlineAction::Evict, RefusalPolicy::Wait, None),
            "no deadline; on refusal Wait"
        );
    }

    #[test]
    fn only_the_fields_that_the_flags_name_are_sent() {
        assert_eq!(Value::Object(Settings::default().fields(None)), json!({}));
        let settings = Settings {
            deadline: Some(Duration::from_mins(10)),
            at_deadline: Some(AtDeadline::Delete),
            on_refusal: Some(OnRefusal::Override),
            grace_period: Some(-1),
            ..Settings::default()
        };
        let deadline = settings.deadline(DateTime::UNIX_EPOCH).unwrap();
        assert_eq!(
            Value::Object(settings.fields(deadline.map(|time| ("deadline", json!(time))))),
            json!({"deadline": "1970-01-01T00:10:00Z", "atDeadline": "Delete", "onRefusal": "Override",
                   "gracePeriodSeconds": null})
        );
        for (seconds, rules) in [
            (None, json!({})),
            (Some(60), json!({"skipTerminatingSeconds": 60})),
            (Some(0), json!({"skipTerminatingSeconds": null})),
        ] {
            let settings = Settings { skip_wait_for_delete_timeout: seconds, ..Settings::default() };
            assert_eq!(Value::Object(settings.pod_rules()), rules);
            assert_eq!(Value::Object(settings.fields(None)), json!({}), "it is no field of a request");
        }
        let rules = |value| {
            let settings = Settings {
                ignore_daemonsets: Some(value),
                delete_emptydir_data: Some(value),
                force: Some(value),
                skip_late_pods: Some(value),
                ..Settings::default()
            };
            Value::Object(settings.pod_rules())
        };
        let expected =
            json!({"daemonSets": "Skip", "emptyDirData": "Delete", "unmanaged": "Evict", "late": "Skip"});
        assert_eq!(rules(true), expected);
        let all: PodRules = serde_json::from_value(expected).unwrap();
        assert_eq!(
            rule_words(&all),
            "; pods of DaemonSets: Skip; data of emptyDir volumes: Delete; pods without a controller: Evict; late \
             pods: Skip"
        );
        let expected = json!({
            "daemonSets": "Refuse", "emptyDirData": "Refuse", "unmanaged": "Refuse", "late": "Evacuate",
        });
        assert_eq!(rules(false), expected);
        for (text, expected) in [
            (
                "app!=db",
                json!({"matchLabels": null, "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}),
            ),
            (" ", Value::Null),
        ] {
            let settings =
                Settings { pod_selector: Some(pod_selector(text).unwrap()), ..Settings::default() };
            assert_eq!(Value::Object(settings.pod_rules()), json!({"selector": expected}));
            assert_eq!(settings.pod_rule(), Some("--pod-selector"));
        }
        assert!(pod_selector("app=(").is_err());
        let endless = Settings { deadline: Some(Duration::MAX), ..Settings::default() };
        assert!(endless.deadline(DateTime::UNIX_EPOCH).is_err());
    }
}
