//! The state of the evacuations that a command follows. Pure: events in, counts and words out.

use std::collections::BTreeMap;

use evacuation_api::{ConditionType, Evacuation, FailedReason};
use evacuation_client::End;
use evacuation_protocol::{active_answer, continues_by, state_word};

use crate::Exit;

/// One evacuation that the command waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tracked {
    /// The pod, as `NAMESPACE/NAME`.
    pub(crate) pod: String,
    /// The Evacuation, as `NAMESPACE/NAME`.
    pub(crate) evacuation: String,
    /// Its state in a word, such as `Asking`.
    pub(crate) state: String,
    /// The last answer.
    pub(crate) answer: Option<String>,
    /// Latest time at which it continues by itself.
    pub(crate) until: Option<String>,
    /// The message of the condition Blocked.
    pub(crate) held_by: Option<String>,
    /// Its end.
    pub(crate) end: Option<End>,
}

impl Tracked {
    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let details = match &self.end {
            Some(End::Failed { reason, message }) => vec![format!("{reason}: {message}")],
            Some(End::Evacuated { .. }) => Vec::new(),
            None => [&self.answer, &self.until, &self.held_by].into_iter().flatten().cloned().collect(),
        };
        let first = format!("{}: {}", self.pod, self.state);
        let details = details.into_iter().map(|detail| format!("({detail})"));
        std::iter::once(first).chain(details).collect::<Vec<_>>().join(" ")
    }
}

/// The evacuations that a command waits for, by UID.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    tracked: BTreeMap<String, Tracked>,
}

impl Tracker {
    /// Starts to follow an Evacuation. Returns its state.
    pub(crate) fn follow(&mut self, evacuation: &Evacuation) -> Tracked {
        let tracked = describe(evacuation);
        self.tracked.insert(uid(evacuation).to_owned(), tracked.clone());
        tracked
    }

    /// Returns true when the Evacuation is followed.
    pub(crate) fn follows(&self, evacuation: &Evacuation) -> bool {
        self.tracked.contains_key(uid(evacuation))
    }

    /// Takes a change in. Returns the evacuation to show, if it is followed and changed visibly.
    pub(crate) fn apply(&mut self, evacuation: &Evacuation) -> Option<&Tracked> {
        let tracked = self.tracked.get_mut(uid(evacuation))?;
        let now = describe(evacuation);
        if *tracked == now {
            return None;
        }
        *tracked = now;
        Some(tracked)
    }

    /// Takes a removal in. An Evacuation that was removed before its end was seen counts as failed.
    pub(crate) fn remove(&mut self, evacuation: &Evacuation) -> Option<&Tracked> {
        let tracked = self.tracked.get_mut(uid(evacuation))?;
        if tracked.end.is_none() {
            tracked.end = Some(End::of(evacuation).unwrap_or_else(removed));
        }
        Some(tracked)
    }

    /// Takes a new list in, with the Evacuations of these UIDs: the others were removed.
    pub(crate) fn lose_all_but(&mut self, listed: &[String]) -> Vec<Tracked> {
        let mut lost = Vec::new();
        for (uid, tracked) in &mut self.tracked {
            if tracked.end.is_none() && !listed.contains(uid) {
                tracked.end = Some(removed());
                lost.push(tracked.clone());
            }
        }
        lost
    }

    /// All followed Evacuations.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Tracked> {
        self.tracked.values()
    }

    /// Number of followed Evacuations.
    pub(crate) fn len(&self) -> usize {
        self.tracked.len()
    }

    /// Number of Evacuations that have ended.
    pub(crate) fn ended(&self) -> usize {
        self.all().filter(|tracked| tracked.end.is_some()).count()
    }

    /// Returns whether all have ended.
    pub(crate) fn finished(&self) -> bool {
        self.ended() == self.len()
    }

    /// The exit for all ends: errors outweigh pods that were left alone by policy, and these outweigh the
    /// rest.
    pub(crate) fn exit(&self) -> Exit {
        let left_alone = [FailedReason::Refused, FailedReason::DeadlineGaveUp].map(FailedReason::as_str);
        let failed = |wanted: bool| {
            self.all().any(|tracked| {
                matches!(&tracked.end, Some(End::Failed { reason, .. }) if left_alone.contains(&reason.as_str()) == wanted)
            })
        };
        if failed(false) {
            Exit::Errors
        } else if failed(true) {
            Exit::Refused
        } else if self.finished() {
            Exit::Done
        } else {
            Exit::TimedOut
        }
    }
}

/// The end of an Evacuation that was removed before its end was seen.
fn removed() -> End {
    End::Failed {
        reason: "Removed".to_owned(),
        message: "the evacuation was removed before its end was seen".to_owned(),
    }
}

fn uid(evacuation: &Evacuation) -> &str {
    evacuation.metadata.uid.as_deref().unwrap_or_default()
}

fn describe(evacuation: &Evacuation) -> Tracked {
    let namespace = evacuation.metadata.namespace.as_deref().unwrap_or_default();
    let blocked = evacuation.status.as_ref().and_then(|status| status.true_condition(ConditionType::Blocked));
    let blocked = blocked.map(|condition| condition.message.clone());
    Tracked {
        pod: format!("{namespace}/{}", evacuation.spec.target.pod.name),
        evacuation: format!("{namespace}/{}", evacuation.metadata.name.as_deref().unwrap_or_default()),
        state: state_word(evacuation).to_string(),
        answer: active_answer(evacuation).map(|answer| format!("{answer:?}")),
        until: continues_by(evacuation).map(|time| format!("until {}", time.format("%Y-%m-%dT%H:%M:%SZ"))),
        held_by: blocked,
        end: End::of(evacuation),
    }
}

#[cfg(test)]
mod tests {
    use evacuation_api::{EvacuationSpec, EvacuationStatus, PodTarget, Target, condition_time};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

    use super::*;

    fn evacuation(uid: &str, ended: Option<(&str, &str)>) -> Evacuation {
        let pod = PodTarget { name: format!("pod-{uid}"), uid: Some(format!("pod-uid-{uid}")) };
        let spec = EvacuationSpec {
            target: Target { pod },
            requesters: Vec::new(),
            ttl_seconds_after_finished: None,
        };
        let mut evacuation = Evacuation::new(uid, spec);
        evacuation.metadata.uid = Some(uid.to_owned());
        evacuation.metadata.namespace = Some("shop".to_owned());
        let condition = |type_: &str, reason: &str| Condition {
            type_: type_.to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            message: "so it is".to_owned(),
            last_transition_time: condition_time(chrono::DateTime::UNIX_EPOCH),
            observed_generation: None,
        };
        let conditions = ended
            .map(|(type_, reason)| vec![condition(type_, reason), condition("Finished", reason)])
            .unwrap_or_default();
        evacuation.status = Some(EvacuationStatus { conditions, ..EvacuationStatus::default() });
        evacuation
    }

    fn exit_after(ends: &[Option<(&str, &str)>]) -> Exit {
        let mut tracker = Tracker::default();
        for (index, end) in ends.iter().enumerate() {
            tracker.follow(&evacuation(&index.to_string(), None));
            tracker.apply(&evacuation(&index.to_string(), *end));
        }
        tracker.exit()
    }

    #[test]
    fn the_exit_code_says_the_worst_that_happened() {
        let gone = Some(("Evacuated", "Evicted"));
        let refused = Some(("Failed", "Refused"));
        let canceled = Some(("Failed", "Canceled"));
        for (ends, exit) in [
            (vec![gone, gone], Exit::Done),
            (vec![gone, refused], Exit::Refused),
            (vec![gone, Some(("Failed", "DeadlineGaveUp"))], Exit::Refused),
            (vec![refused, None], Exit::Refused),
            (vec![refused, canceled], Exit::Errors),
            (vec![gone, None], Exit::TimedOut),
            (vec![], Exit::Done),
        ] {
            assert_eq!(exit_after(&ends), exit, "{ends:?}");
        }
    }

    #[test]
    fn only_changes_of_our_own_evacuations_are_shown() {
        let mut tracker = Tracker::default();
        tracker.follow(&evacuation("a", None));
        assert!(tracker.apply(&evacuation("a", None)).is_none(), "nothing changed");
        assert!(tracker.apply(&evacuation("b", Some(("Evacuated", "Evicted")))).is_none(), "not ours");
        assert!(tracker.apply(&evacuation("a", Some(("Evacuated", "Evicted")))).is_some());
        assert!(tracker.finished());
    }

    #[test]
    fn the_line_of_an_evacuation_that_waits_for_a_window_says_when_it_opens() {
        let mut sleeping = evacuation("a", None);
        sleeping.spec.requesters = serde_json::from_value(serde_json::json!([
            {"name": "a.b/c", "window": {"schedule": "0 22 * * 6", "durationSeconds": 3600}},
        ]))
        .unwrap();
        let now = chrono::DateTime::UNIX_EPOCH;
        sleeping.status = Some(evacuation_protocol::begin(&sleeping.spec, "u", &[], now));
        let mut tracker = Tracker::default();
        tracker.follow(&sleeping);
        let lines: Vec<_> = tracker.all().map(Tracked::line).collect();
        assert_eq!(lines, ["shop/pod-a: Scheduled (until 1970-01-03T22:00:00Z)"]);
    }

    #[test]
    fn a_line_says_what_was_answered_and_until_when() {
        let mut delayed = evacuation("a", None);
        let responder = serde_json::json!({
            "name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 600, "state": "Active",
            "activeTime": "2026-11-20T22:00:00Z", "answer": "Delay", "delayUntil": "2026-11-20T22:05:00Z",
        });
        let status = delayed.status.as_mut().unwrap();
        status.responders = Some(vec![serde_json::from_value(responder).unwrap()]);
        let mut tracker = Tracker::default();
        tracker.follow(&evacuation("a", None));
        let line = tracker.apply(&delayed).unwrap().line();
        assert_eq!(line, "shop/pod-a: Delayed (Delay) (until 2026-11-20T22:05:00Z)");
    }

    #[test]
    fn an_evacuation_that_is_removed_before_its_end_is_an_error() {
        let mut tracker = Tracker::default();
        tracker.follow(&evacuation("a", None));
        tracker.remove(&evacuation("a", None));
        assert_eq!(tracker.exit(), Exit::Errors);
    }
}
