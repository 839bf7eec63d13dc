//! One Evacuation as the commands show it. Pure: an object in, words out.

use chrono::TimeDelta;
use evacuation_api::{
    Answer, ConditionType, DeadlineAction, Evacuation, EvacuationStatus, ResponderState, ResponderStatus,
};
use evacuation_client::End;
use evacuation_protocol::{NO_VALID_ANSWER, NODE_UNREACHABLE, NOT_REACHED, current_responder, state_word};

use crate::{moment::Now, next::Next, plain::plain};

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
    /// Reason for which the reply of the responder that is asked does not count.
    pub(crate) problem: Option<String>,
    /// The next step that needs no person.
    pub(crate) next: Option<Next>,
    /// The node of the pod when it was asked.
    pub(crate) node: Option<String>,
    /// True when no responder is asked before the eviction.
    pub(crate) unasked: bool,
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
    pub(crate) cause: Unheard,
    /// Reason for which its replies did not count, in the controller's words.
    pub(crate) problem: Option<String>,
}

/// Reason for which a responder gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unheard {
    /// It was not asked, because no container of the pod runs.
    NotAsked,
    /// The question did not reach it: its node does not report, or its endpoint does not accept connections.
    Unreachable,
    /// It was silent for so many seconds.
    Silent(i64),
    /// None of its replies counted.
    NoValidAnswer,
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
        let asked =
            current_responder(evacuation).filter(|r| r.answer.is_none() && r.state == ResponderState::Active);
        let eviction = status.eviction.iter().flat_map(|eviction| &eviction.blocked_by);
        let budget =
            |kind: &str| if kind == "PodDisruptionBudget" { "budget".to_owned() } else { kind.to_owned() };
        Self {
            pod: full(&evacuation.spec.target.pod.name),
            evacuation: full(evacuation.metadata.name.as_deref().unwrap_or_default()),
            state: state_word(evacuation),
            answer: responder.and_then(|responder| responder.answer),
            said: said.filter(|said| !said.is_empty()),
            problem: asked.and_then(|responder| responder.message.as_deref()).map(plain),
            next: Next::of(evacuation),
            node: status.node_name.clone(),
            unasked: status.responders.as_ref().is_some_and(Vec::is_empty),
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

    /// Returns its state in words.
    pub(crate) fn state(&self) -> &'static str {
        match self.state {
            "Pending" if self.unasked => "to be evicted (no responder)",
            state => state,
        }
    }

    /// Returns one line for people.
    pub(crate) fn line(&self, now: Now) -> String {
        let mut details: Vec<String> = Vec::new();
        let mut next = None;
        match &self.end {
            Some(End::Failed { reason, message }) => details.push(failure(self.state, reason, message)),
            Some(End::Evacuated { .. }) => details.extend(self.unanswered.iter().map(Unanswered::text)),
            None => {
                details.extend(self.unanswered.iter().map(Unanswered::text));
                details.extend(self.answer_text());
                let told = |by: &&String| self.said.as_ref().is_some_and(|said| by.contains(said));
                details.extend(self.held_by.iter().filter(|by| !told(by)).cloned());
                next = self.next.and_then(|next| next.text(now));
            }
        }
        let first = format!("{}: {}", self.pod, self.state());
        let details = details.into_iter().map(|detail| format!("({})", now.text(&detail)));
        let line = std::iter::once(first).chain(details).collect::<Vec<_>>().join(" ");
        next.into_iter().fold(line, |line, next| format!("{line}, {next}"))
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

/// Returns the reason and the message of a failure. A reason that is the state is not told twice.
pub(crate) fn failure(state: &str, reason: &str, message: &str) -> String {
    if reason == state { plain(message) } else { plain(&format!("{reason}: {message}")) }
}

impl Unanswered {
    /// Returns the responder and the reason in words.
    pub(crate) fn text(&self) -> String {
        match (self.cause, &self.problem) {
            (Unheard::NotAsked, _) => format!("responder {} could not be asked", self.responder),
            (_, Some(problem)) => format!("responder {}: {problem}", self.responder),
            (Unheard::Silent(seconds), None) => {
                format!("responder {} was silent for {seconds} s", self.responder)
            }
            (Unheard::Unreachable, None) => format!("responder {} could not be reached", self.responder),
            (Unheard::NoValidAnswer, None) => format!("responder {} gave no valid answer", self.responder),
        }
    }
}

fn unanswered(responder: &ResponderStatus, status: &EvacuationStatus) -> Option<Unanswered> {
    if responder.state != ResponderState::Interrupted || responder.answer.is_some() {
        return None;
    }
    // An endpoint that was silent throughout has no other message than that.
    let is_problem =
        |message: &&str| [NO_VALID_ANSWER, NOT_REACHED].iter().any(|start| message.starts_with(start));
    let problem = responder.message.as_deref().filter(is_problem);
    let problem = problem.map(plain);
    let of = |cause| Some(Unanswered { responder: plain(&responder.name), cause, problem: problem.clone() });
    if responder.reason.as_deref() == Some(NODE_UNREACHABLE) {
        return of(Unheard::Unreachable);
    }
    let deadlines = status.policy.iter().flat_map(|policy| &policy.deadlines);
    let forced =
        deadlines.filter(|d| d.reached && d.action != DeadlineAction::GiveUp).map(|d| d.time.0).min();
    let is_unreachable = responder.is_pushed() && responder.asked_time.is_none();
    let tried = responder.asked_time.or(responder.unreachable_time);
    let asked = if responder.is_pushed() { tried } else { responder.active_time };
    match (asked, forced) {
        (None, None) => of(Unheard::NotAsked),
        (None, Some(_)) => None,
        (Some(asked), forced) => {
            let expiry = TimeDelta::try_seconds(responder.timeout_seconds)
                .and_then(|timeout| asked.0.checked_add_signed(timeout));
            let cut = forced.zip(expiry).is_some_and(|(forced, expiry)| forced < expiry);
            let cause = if is_unreachable {
                Unheard::Unreachable
            } else if responder.message.as_deref().is_some_and(|text| text.starts_with(NO_VALID_ANSWER)) {
                Unheard::NoValidAnswer
            } else {
                Unheard::Silent(responder.timeout_seconds)
            };
            if cut { None } else { of(cause) }
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

    fn now() -> Now {
        Now { time: "2026-11-20T22:00:00Z".parse().unwrap(), led: true }
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
        let now = Now { time: chrono::DateTime::UNIX_EPOCH, led: true };
        sleeping.status = Some(evacuation_protocol::begin(&sleeping.spec, "u", &[], now.time));
        assert_eq!(
            Tracked::of(&sleeping).line(now),
            "shop/pod-a: Scheduled, until 1970-01-03T22:00:00Z (in 2 d)"
        );
    }

    #[test]
    fn a_line_says_what_was_answered_and_until_when() {
        for (message, expected) in [(json!(null), "(Delay)"), (json!("3 jobs\u{1b}"), "(Delay: 3 jobs )")] {
            let delayed = responder(&json!({
                "answer": "Delay", "delayUntil": "2026-11-20T22:05:00Z", "message": message,
            }));
            let delayed = tracked(&json!({"responders": [delayed]}));
            let line = delayed.line(now());
            assert_eq!(line, format!("shop/pod-a: Delayed {expected}, until 22:05:00Z (in 5 min)"));
            let line = delayed.line(Now { led: false, ..now() });
            assert_eq!(line, format!("shop/pod-a: Delayed {expected}"), "no controller keeps a promise");
        }
    }

    #[test]
    fn the_text_of_a_refusal_is_told_once_and_never_that_of_a_deadline() {
        let blocked = json!([{"type": "Blocked", "status": "True", "reason": "Refused",
                              "message": "responder self refused: a backup runs",
                              "lastTransitionTime": "2026-11-20T22:00:00Z"}]);
        let refused = responder(&json!({"answer": "Refuse", "message": "a backup runs"}));
        let line = tracked(&json!({"responders": [refused], "conditions": blocked})).line(now());
        assert_eq!(line, "shop/pod-a: Refused (Refuse: a backup runs)");
        let skipped =
            json!({"answer": "Refuse", "message": "the deadline was reached", "state": "Interrupted"});
        let line = tracked(&json!({"responders": [responder(&skipped)]})).line(now());
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
            (json!({"reason": "NodeUnreachable"}), json!([]), vec!["responder self could not be reached"]),
            (json!({"activeTime": null}), json!([]), vec!["responder self could not be asked"]),
            (json!({"activeTime": null}), reached("2026-11-20T22:00:30Z"), vec![]),
            (json!({"http": pushed}), reached("2026-11-20T22:00:30Z"), vec![]),
            (json!({"http": pushed}), json!([]), vec!["responder self could not be asked"]),
            (
                json!({"http": pushed, "unreachableTime": "2026-11-20T22:00:00Z"}),
                reached("2026-11-20T22:00:30Z"),
                vec![],
            ),
            (
                json!({"http": pushed, "unreachableTime": "2026-11-20T22:00:00Z"}),
                json!([]),
                vec!["responder self could not be reached"],
            ),
            (
                json!({"http": pushed, "askedTime": "2026-11-20T22:00:00Z",
                       "message": "it gave no valid answer in 60 s: its reply does not count: 500"}),
                json!([]),
                vec!["responder self: it gave no valid answer in 60 s: its reply does not count: 500"],
            ),
            (
                json!({"http": pushed, "unreachableTime": "2026-11-20T22:00:00Z",
                       "message": "it could not be reached for 60 s: connection refused"}),
                json!([]),
                vec!["responder self: it could not be reached for 60 s: connection refused"],
            ),
            (json!({"answer": "Delay"}), json!([]), vec![]),
        ] {
            let mut fields = fields;
            fields["state"] = json!("Interrupted");
            let status = json!({
                "responders": [responder(&fields)], "policy": {"onRefusal": "Wait", "deadlines": deadlines},
            });
            let unanswered = tracked(&status).unanswered;
            let texts: Vec<_> = unanswered.iter().map(Unanswered::text).collect();
            assert_eq!(texts, expected, "{fields} {deadlines}");
            let is_broken = texts.iter().any(|text| text.contains("no valid answer"));
            assert_eq!(
                unanswered.iter().any(|one| one.cause == Unheard::NoValidAnswer),
                is_broken,
                "{texts:?}"
            );
        }
    }

    #[test]
    fn a_canceled_request_and_a_pod_without_responders_are_called_so() {
        let condition = |kind: &str, reason: &str| {
            json!([{"type": kind, "status": "True", "reason": reason, "message": "alice left",
                    "lastTransitionTime": "2026-11-20T22:00:00Z"}])
        };
        for (status, expected) in [
            (json!({"conditions": condition("Failed", "Canceled")}), "shop/pod-a: Canceled (alice left)"),
            (
                json!({"conditions": condition("Failed", "DeadlineGaveUp")}),
                "shop/pod-a: Failed (DeadlineGaveUp: alice left)",
            ),
            (json!({"responders": []}), "shop/pod-a: to be evicted (no responder)"),
            (json!({"responders": [responder(&json!({}))]}), "shop/pod-a: Asking, until 22:01:00Z (in 60 s)"),
        ] {
            assert_eq!(tracked(&status).line(now()), expected);
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
