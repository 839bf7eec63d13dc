//! One Evacuation as the commands show it. Pure: an object in, words out.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use evacuation_api::{
    Answer, ConditionType, DeadlineAction, Evacuation, EvacuationStatus, ResponderState, ResponderStatus,
};
use evacuation_client::End;
use evacuation_protocol::{NODE_UNREACHABLE, continues_by, current_responder, state_word};

use crate::plain::plain;

/// One Evacuation that a command follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tracked {
    /// The pod, as `NAMESPACE/NAME`.
    pub(crate) pod: String,
    /// The Evacuation, as `NAMESPACE/NAME`.
    pub(crate) evacuation: String,
    /// Its state in a word, such as `Asking`.
    pub(crate) state: &'static str,
    /// The last answer.
    pub(crate) answer: Option<Answer>,
    /// Reason and message of the last answer.
    pub(crate) said: Option<String>,
    /// Latest time at which it continues by itself.
    pub(crate) until: Option<DateTime<Utc>>,
    /// The message of the condition Blocked.
    pub(crate) held_by: Option<String>,
    /// The objects that hold the eviction back, such as `budget shop/db`.
    pub(crate) blocked_by: Vec<String>,
    /// The responders that gave no answer.
    pub(crate) unanswered: Vec<Unanswered>,
    /// Its end.
    pub(crate) end: Option<End>,
}

/// A responder that was skipped because it gave no answer. One that a deadline skipped does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    responder: String,
    /// The seconds of its silence. `None` when it could not be asked.
    pub(crate) silence: Option<i64>,
}

impl Tracked {
    /// Describes an Evacuation.
    pub(crate) fn of(evacuation: &Evacuation) -> Self {
        let empty = EvacuationStatus::default();
        let status = evacuation.status.as_ref().unwrap_or(&empty);
        let namespace = evacuation.metadata.namespace.as_deref().unwrap_or_default();
        let full = |name: &str| format!("{namespace}/{name}");
        let responder = current_responder(evacuation).filter(|responder| responder.answer.is_some());
        // The message of a responder that was skipped is not its own.
        let said = responder.filter(|r| r.state != ResponderState::Interrupted);
        let said = said.map(|r| [&r.reason, &r.message].into_iter().flatten().cloned());
        let said = said.map(|parts| plain(&parts.collect::<Vec<_>>().join(": ")));
        let eviction = status.eviction.iter().flat_map(|eviction| &eviction.blocked_by);
        let budget =
            |kind: &str| if kind == "PodDisruptionBudget" { "budget".to_owned() } else { kind.to_owned() };
        Self {
            pod: full(&evacuation.spec.target.pod.name),
            evacuation: full(evacuation.metadata.name.as_deref().unwrap_or_default()),
            state: state_word(evacuation),
            answer: responder.and_then(|responder| responder.answer),
            said: said.filter(|said| !said.is_empty()),
            until: continues_by(evacuation),
            held_by: status.true_condition(ConditionType::Blocked).map(|c| plain(&c.message)),
            blocked_by: eviction.map(|by| format!("{} {}", budget(&by.kind), full(&by.name))).collect(),
            unanswered: status
                .responders
                .iter()
                .flatten()
                .filter_map(|responder| unanswered(responder, status))
                .collect(),
            end: End::of(evacuation),
        }
    }

    /// Returns true when the pod is gone.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.end, Some(End::Evacuated { .. }))
    }

    /// Returns one line for people.
    pub(crate) fn line(&self) -> String {
        let mut details: Vec<String> = Vec::new();
        match &self.end {
            Some(End::Failed { reason, message }) => details.push(plain(&format!("{reason}: {message}"))),
            Some(End::Evacuated { .. }) => details.extend(self.unanswered.iter().map(Unanswered::text)),
            None => {
                details.extend(self.unanswered.iter().map(Unanswered::text));
                details.extend(self.answer_text());
                let until = self.until.map(|time| time.to_rfc3339_opts(SecondsFormat::Secs, true));
                details.extend(until.map(|time| format!("until {time}")));
                let told = |by: &&String| self.said.as_ref().is_some_and(|said| by.contains(said));
                details.extend(self.held_by.iter().filter(|by| !told(by)).cloned());
            }
        }
        let first = format!("{}: {}", self.pod, self.state);
        let details = details.into_iter().map(|detail| format!("({detail})"));
        std::iter::once(first).chain(details).collect::<Vec<_>>().join(" ")
    }

    /// Returns the answer with its reason and message.
    fn answer_text(&self) -> Option<String> {
        let answer = format!("{:?}", self.answer?);
        Some(match &self.said {
            Some(said) => format!("{answer}: {said}"),
            None => answer,
        })
    }
}

impl Unanswered {
    /// Returns the responder and the reason in words.
    pub(crate) fn text(&self) -> String {
        match self.silence {
            Some(seconds) => format!("responder {} was silent for {seconds} s", self.responder),
            None => format!("responder {} could not be asked", self.responder),
        }
    }
}

fn unanswered(responder: &ResponderStatus, status: &EvacuationStatus) -> Option<Unanswered> {
    if responder.state != ResponderState::Interrupted || responder.answer.is_some() {
        return None;
    }
    let of = |silence| Some(Unanswered { responder: plain(&responder.name), silence });
    if responder.reason.as_deref() == Some(NODE_UNREACHABLE) {
        return of(None);
    }
    let deadlines = status.policy.iter().flat_map(|policy| &policy.deadlines);
    let forced =
        deadlines.filter(|d| d.reached && d.action != DeadlineAction::GiveUp).map(|d| d.time.0).min();
    let asked = if responder.is_pushed() { responder.asked_time } else { responder.active_time };
    match (asked, forced) {
        (None, None) => of(None),
        // Its endpoint could not be reached before the deadline.
        (None, Some(_)) if responder.is_pushed() && responder.active_time.is_some() => of(None),
        (None, Some(_)) => None,
        (Some(asked), forced) => {
            let expiry = TimeDelta::try_seconds(responder.timeout_seconds)
                .and_then(|timeout| asked.0.checked_add_signed(timeout));
            let cut = forced.zip(expiry).is_some_and(|(forced, expiry)| forced < expiry);
            if cut { None } else { of(Some(responder.timeout_seconds)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tracked(status: &Value) -> Tracked {
        let evacuation: Evacuation = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "1"},
            "spec": {"target": {"pod": {"name": "pod-a"}}}, "status": status,
        }))
        .unwrap();
        Tracked::of(&evacuation)
    }

    fn responder(fields: &Value) -> Value {
        let mut responder = json!({
            "name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 600, "state": "Active",
            "activeTime": "2026-11-20T22:00:00Z",
        });
        for (key, value) in fields.as_object().unwrap() {
            responder[key] = value.clone();
        }
        responder
    }

    #[test]
    fn the_line_of_an_evacuation_that_waits_for_a_window_says_when_it_opens() {
        let mut sleeping: Evacuation = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "shop"},
            "spec": {"target": {"pod": {"name": "pod-a"}}, "requesters": [
                {"name": "a.b/c", "window": {"schedule": "0 22 * * 6", "durationSeconds": 3600}},
            ]},
        }))
        .unwrap();
        let now = chrono::DateTime::UNIX_EPOCH;
        sleeping.status = Some(evacuation_protocol::begin(&sleeping.spec, "u", &[], now));
        assert_eq!(Tracked::of(&sleeping).line(), "shop/pod-a: Scheduled (until 1970-01-03T22:00:00Z)");
    }

    #[test]
    fn a_line_says_what_was_answered_and_until_when() {
        for (message, expected) in [(json!(null), "(Delay)"), (json!("3 jobs\u{1b}"), "(Delay: 3 jobs )")] {
            let delayed = responder(&json!({
                "answer": "Delay", "delayUntil": "2026-11-20T22:05:00Z", "message": message,
            }));
            let line = tracked(&json!({"responders": [delayed]})).line();
            assert_eq!(line, format!("shop/pod-a: Delayed {expected} (until 2026-11-20T22:05:00Z)"));
        }
    }

    #[test]
    fn the_text_of_a_refusal_is_told_once_and_never_that_of_a_deadline() {
        let blocked = json!([{"type": "Blocked", "status": "True", "reason": "Refused",
                              "message": "responder self refused: a backup runs",
                              "lastTransitionTime": "2026-11-20T22:00:00Z"}]);
        let refused = responder(&json!({"answer": "Refuse", "message": "a backup runs"}));
        let line = tracked(&json!({"responders": [refused], "conditions": blocked})).line();
        assert_eq!(line, "shop/pod-a: Refused (Refuse: a backup runs)");
        let skipped =
            json!({"answer": "Refuse", "message": "the deadline was reached", "state": "Interrupted"});
        let line = tracked(&json!({"responders": [responder(&skipped)]})).line();
        assert_eq!(line, "shop/pod-a: Evicting (Refuse)");
    }

    #[test]
    fn a_responder_that_gave_no_answer_is_named_with_the_reason() {
        let reached =
            |time: &str| json!([{"requester": "a.b/c", "time": time, "action": "Evict", "reached": true}]);
        let pushed = json!({"port": 8080, "path": "/"});
        for (fields, deadlines, expected) in [
            (json!({}), json!([]), vec!["responder self was silent for 60 s"]),
            (json!({}), reached("2026-11-20T22:05:00Z"), vec!["responder self was silent for 60 s"]),
            (json!({}), reached("2026-11-20T22:00:30Z"), vec![]),
            (json!({"reason": "NodeUnreachable"}), json!([]), vec!["responder self could not be asked"]),
            (json!({"activeTime": null}), json!([]), vec!["responder self could not be asked"]),
            (json!({"activeTime": null}), reached("2026-11-20T22:00:30Z"), vec![]),
            (
                json!({"http": pushed}),
                reached("2026-11-20T22:00:30Z"),
                vec!["responder self could not be asked"],
            ),
            (json!({"answer": "Delay"}), json!([]), vec![]),
        ] {
            let mut fields = fields;
            fields["state"] = json!("Interrupted");
            let status = json!({
                "responders": [responder(&fields)], "policy": {"onRefusal": "Wait", "deadlines": deadlines},
            });
            let texts: Vec<_> = tracked(&status).unanswered.iter().map(Unanswered::text).collect();
            assert_eq!(texts, expected, "{fields} {deadlines}");
        }
    }

    #[test]
    fn an_eviction_that_is_held_back_names_the_object() {
        let held = tracked(&json!({
            "eviction": {"blockedBy": [{"kind": "PodDisruptionBudget", "name": "db"}, {"kind": "Pod", "name": "x"}]},
        }));
        assert_eq!(held.blocked_by, ["budget shop/db", "Pod shop/x"]);
    }
}
