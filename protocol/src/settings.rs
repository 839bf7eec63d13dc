//! Settings of the cluster's administrator: defaults of requesters, and limits of responders.

use chrono::{DateTime, Utc};
use evacuation_api::{
    DEFAULT_MAX_DELAY_SECONDS, DEFAULT_TIMEOUT_SECONDS, DeadlineAction, DrainRequester,
    EvacuationResponderSpec, EvacuationSpec, Requester, ResponderEntry, WholeSecond, WindowCalendar,
};

use crate::{responders::Registered, time::after};

/// Settings of the cluster's administrator. Without a value nothing changes.
///
/// # Guarantees
///
/// The values are written into the objects when these are written: what was granted holds when a setting
/// changes later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NegotiationSettings {
    /// Seconds until the deadline of a requester that gives none.
    pub default_deadline_seconds: Option<i64>,
    /// Action at that deadline; `Evict` by default.
    pub default_at_deadline: Option<DeadlineAction>,
    /// Limit on the maximum total delay of each responder, in seconds.
    pub max_delay_seconds: Option<i64>,
    /// Limit on the timeout of each responder, in seconds.
    pub max_timeout_seconds: Option<i64>,
}

impl NegotiationSettings {
    /// Gives the entries of `user` that have no deadline the default one, and returns a warning for each. An
    /// entry that is among the `old` ones keeps the deadline that it has there.
    ///
    /// The time runs from `now`, or from the opening of the entry's window. A rehearsal gives its own.
    /// Entries that a user writes for another, as the controller does for a drain, stay as they are: there
    /// the drain has the deadline.
    pub fn give_deadlines(
        &self,
        spec: &mut EvacuationSpec,
        old: &[Requester],
        user: &str,
        now: DateTime<Utc>,
    ) -> Vec<String> {
        let Some(seconds) = self.default_deadline_seconds.filter(|_| !spec.rehearsal) else {
            return Vec::new();
        };
        let mut warnings = Vec::new();
        let without = spec.requesters.iter_mut().filter(|entry| entry.owner == user);
        for entry in without.filter(|entry| entry.deadline.is_none()) {
            if let Some(known) = old.iter().find(|known| known.key() == entry.key()) {
                entry.deadline = known.deadline;
                if known.deadline.is_some() {
                    entry.at_deadline = entry.at_deadline.or(known.at_deadline);
                }
                continue;
            }
            let start = match &entry.window {
                None => Some(now),
                // A window that cannot be read is an error of the validation.
                Some(window) => {
                    WindowCalendar::read(window).ok().and_then(|calendar| calendar.first_open(now))
                }
            };
            let Some(start) = start else { continue };
            let deadline = WholeSecond::from(after(start, seconds));
            entry.deadline = Some(deadline);
            let action = *entry.at_deadline.get_or_insert(self.at_deadline());
            warnings.push(format!(
                "requester {:?} gives no deadline: the default of this cluster is {}, then {action:?}",
                entry.name,
                deadline.time().format("%Y-%m-%dT%H:%M:%SZ")
            ));
        }
        warnings
    }

    /// Gives the request of a new drain, or of a new rule, the default deadline if it has none, and returns a
    /// warning of it.
    pub fn give_drain_deadline(&self, requester: &mut DrainRequester) -> Option<String> {
        let seconds = self.default_deadline_seconds.filter(|_| requester.deadline_seconds.is_none())?;
        requester.deadline_seconds = Some(seconds);
        let action = *requester.at_deadline.get_or_insert(self.at_deadline());
        Some(format!("requester.deadlineSeconds: the default of this cluster is {seconds}, then {action:?}"))
    }

    /// Keeps the deadline of a drain or a rule in a write that leaves it out, and returns a warning of it.
    pub fn keep_drain_deadline(
        &self,
        requester: &mut DrainRequester,
        old: &DrainRequester,
    ) -> Option<String> {
        self.default_deadline_seconds?;
        let known = old.deadline_seconds.filter(|_| requester.deadline_seconds.is_none())?;
        requester.deadline_seconds = Some(known);
        requester.at_deadline = requester.at_deadline.or(old.at_deadline);
        Some(format!("requester.deadlineSeconds: stays {known}, because this cluster wants a deadline"))
    }

    fn at_deadline(&self) -> DeadlineAction {
        self.default_at_deadline.unwrap_or_default()
    }

    /// Cuts what responders registered down to the limits, and returns a warning that names each value that
    /// was given and does not count.
    pub fn limit_registered(&self, registered: &mut Registered) -> Option<String> {
        let reduced: Vec<String> = registered
            .entries
            .iter_mut()
            .flat_map(|entry| {
                let reductions = self.limit(entry);
                let name = &entry.name;
                reductions.into_iter().map(move |reduction| format!("{name} {reduction}")).collect::<Vec<_>>()
            })
            .collect();
        (!reduced.is_empty()).then(|| format!("limits of this cluster: {}", reduced.join("; ")))
    }

    fn limit(&self, entry: &mut ResponderEntry) -> Vec<String> {
        let (timeout, delay) = (entry.timeout_seconds(), entry.max_delay_seconds());
        let limits = [
            ("timeoutSeconds", &mut entry.timeout_seconds, timeout, self.max_timeout_seconds),
            ("maxDelaySeconds", &mut entry.max_delay_seconds, delay, self.max_delay_seconds),
        ];
        let mut reductions = Vec::new();
        for (field, value, wanted, limit) in limits {
            let Some(limit) = limit.filter(|limit| *limit < wanted) else { continue };
            if value.replace(limit).is_some() {
                reductions.push(format!("{field} is {limit}, not {wanted}"));
            }
        }
        reductions
    }

    /// Fills in the defaults of an EvacuationResponder that are below those of the schema.
    pub fn default_responder(&self, spec: &mut EvacuationResponderSpec) {
        let below = |limit: Option<i64>, default| limit.filter(|limit| *limit < default);
        spec.timeout_seconds =
            spec.timeout_seconds.or(below(self.max_timeout_seconds, DEFAULT_TIMEOUT_SECONDS));
        spec.max_delay_seconds =
            spec.max_delay_seconds.or(below(self.max_delay_seconds, DEFAULT_MAX_DELAY_SECONDS));
    }

    /// Returns a warning that names the values of an EvacuationResponder that do not count.
    pub fn responder_warning(&self, spec: &EvacuationResponderSpec) -> Option<String> {
        self.limit_registered(&mut Registered::from(vec![spec.entry()]))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SETTINGS: NegotiationSettings = NegotiationSettings {
        default_deadline_seconds: Some(600),
        default_at_deadline: None,
        max_delay_seconds: Some(300),
        max_timeout_seconds: Some(30),
    };

    fn now() -> DateTime<Utc> {
        "2026-11-20T22:00:00Z".parse().unwrap()
    }

    fn spec(entries: &Value) -> EvacuationSpec {
        let target = json!({"pod": {"name": "db-0"}});
        serde_json::from_value(json!({"target": target, "requesters": entries})).unwrap()
    }

    /// The deadline and its action of the only entry.
    fn given(entry: &Value, old: &[Requester]) -> (Option<String>, Option<DeadlineAction>, usize) {
        let mut spec = spec(&json!([entry]));
        let warnings = SETTINGS.give_deadlines(&mut spec, old, "jane", now());
        let entry = &spec.requesters[0];
        (entry.deadline.map(|time| time.time().to_rfc3339()), entry.at_deadline, warnings.len())
    }

    #[test]
    fn an_entry_without_a_deadline_gets_the_default_one_once() {
        let at = |time: &str| Some(format!("2026-11-{time}+00:00"));
        let mine = |more: Value| {
            let mut entry = json!({"owner": "jane", "name": "a.b/c"});
            entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            entry
        };
        let window = json!({"schedule": "0 1 * * *", "durationSeconds": 3600, "timeZone": "UTC"});
        let evict = Some(DeadlineAction::Evict);
        let give_up = Some(DeadlineAction::GiveUp);
        let table = [
            (mine(json!({})), (at("20T22:10:00"), evict, 1)),
            (mine(json!({"atDeadline": "GiveUp"})), (at("20T22:10:00"), give_up, 1)),
            (mine(json!({"window": window})), (at("21T01:10:00"), evict, 1)),
            (mine(json!({"deadline": "2026-11-20T22:00:05Z"})), (at("20T22:00:05"), None, 0)),
            (json!({"owner": "joe", "name": "a.b/c"}), (None, None, 0)),
        ];
        for (entry, expected) in table {
            assert_eq!(given(&entry, &[]), expected, "{entry}");
        }
        let old = spec(&json!([mine(json!({"deadline": "2026-11-20T21:00:00Z", "atDeadline": "GiveUp"}))]));
        let kept = given(&mine(json!({})), &old.requesters);
        assert_eq!(kept, (at("20T21:00:00"), give_up, 0));
        let before = spec(&json!([mine(json!({}))]));
        assert_eq!(given(&mine(json!({})), &before.requesters), (None, None, 0), "older than the setting");
    }

    #[test]
    fn a_drain_without_a_deadline_gets_the_default_one_and_keeps_it() {
        let mut drain = DrainRequester::default();
        assert!(SETTINGS.give_drain_deadline(&mut drain).is_some());
        assert_eq!((drain.deadline_seconds, drain.at_deadline), (Some(600), Some(DeadlineAction::Evict)));
        assert_eq!(SETTINGS.give_drain_deadline(&mut drain.clone()), None);
        let mut later = DrainRequester::default();
        assert!(SETTINGS.keep_drain_deadline(&mut later, &drain).is_some());
        assert_eq!(later, drain);
        let mut own = DrainRequester { deadline_seconds: Some(5), ..DrainRequester::default() };
        assert_eq!(SETTINGS.keep_drain_deadline(&mut own, &drain), None);
        assert_eq!(own.deadline_seconds, Some(5));
        let none = NegotiationSettings::default();
        assert_eq!(none.give_drain_deadline(&mut DrainRequester::default()), None);
    }

    #[test]
    fn registrations_are_cut_to_the_limits_and_only_given_values_are_named() {
        let entries = json!([
            {"name": "self", "priority": 3, "timeoutSeconds": 20, "maxDelaySeconds": 86400},
            {"name": "a.b/c", "priority": 2},
            {"name": "a.b/d", "priority": 1, "timeoutSeconds": 31, "maxDelaySeconds": 0},
        ]);
        let entries: Vec<ResponderEntry> = serde_json::from_value(entries).unwrap();
        let mut registered = Registered::from(entries);
        let warning = SETTINGS.limit_registered(&mut registered);
        let seconds = |entry: &ResponderEntry| (entry.timeout_seconds(), entry.max_delay_seconds());
        let seconds: Vec<_> = registered.entries.iter().map(seconds).collect();
        assert_eq!(seconds, [(20, 300), (30, 300), (30, 0)]);
        assert_eq!(
            warning.as_deref(),
            Some(
                "limits of this cluster: self maxDelaySeconds is 300, not 86400; a.b/d timeoutSeconds is 30, not 31"
            )
        );
        assert_eq!(NegotiationSettings::default().limit_registered(&mut registered), None);
    }

    #[test]
    fn an_evacuation_responder_gets_defaults_within_the_limits() {
        let spec = json!({"selector": {}, "name": "a.b/c", "timeoutSeconds": 60});
        let mut spec: EvacuationResponderSpec = serde_json::from_value(spec).unwrap();
        SETTINGS.default_responder(&mut spec);
        assert_eq!((spec.timeout_seconds, spec.max_delay_seconds), (Some(60), Some(300)));
        let warning = SETTINGS.responder_warning(&spec).unwrap();
        assert!(
            warning.contains("timeoutSeconds is 30, not 60") && !warning.contains("maxDelay"),
            "{warning}"
        );
    }
}
