//! The next thing that happens to a pod without a person's doing. Pure.

use chrono::{DateTime, SecondsFormat, Utc};
use evacuation_api::{Answer, DeadlineAction, Evacuation, ResponderState};
use evacuation_protocol::{
    asked_again_at, continues_by, counted_deletion, is_finished, left_to_callers_until, state_word,
};
use serde_json::{Value, json};

use crate::moment::Now;

/// A step that the controller makes by itself, at the latest at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) time: DateTime<Utc>,
    pub(crate) step: Step,
}

/// Kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The window of a requester opens.
    WindowOpens,
    /// The time of a responder without an answer is over.
    SilenceEnds,
    /// A delay ends.
    DelayEnds,
    /// A responder that refused is asked again.
    AsksAgain,
    /// A deletion that counts passes the budgets that hold it back.
    PassesBudget,
    /// The pod is no longer left to the callers that delete it themselves.
    CallersTimeEnds,
    /// A deadline acts.
    Deadline(DeadlineAction),
}

impl Next {
    /// Returns the next step of an Evacuation. `None` when only another object can move it.
    pub(crate) fn of(evacuation: &Evacuation) -> Option<Self> {
        let status = evacuation.status.as_ref().filter(|status| !is_finished(status))?;
        let active = status.responders.iter().flatten().find(|r| r.state == ResponderState::Active);
        let answer = active.and_then(|responder| responder.answer);
        let refused = active.filter(|_| answer == Some(Answer::Refuse));
        let again = refused.and_then(|responder| asked_again_at(status, responder));
        let again = again.map(|time| Self { time, step: Step::AsksAgain });
        let passes_at = counted_deletion(evacuation).map(|deletion| deletion.passes_at);
        let left_until = left_to_callers_until(evacuation);
        let next = continues_by(evacuation).map(|time| {
            let mut deadlines = status.policy.iter().flat_map(|policy| &policy.deadlines);
            let deadline = deadlines.find(|deadline| !deadline.reached && deadline.time.0 == time);
            let step = match (deadline, answer) {
                _ if state_word(evacuation) == "Scheduled" => Step::WindowOpens,
                _ if passes_at == Some(time) => Step::PassesBudget,
                _ if left_until == Some(time) => Step::CallersTimeEnds,
                (Some(deadline), _) => Step::Deadline(deadline.action),
                (None, Some(Answer::Delay)) => Step::DelayEnds,
                (None, _) => Step::SilenceEnds,
            };
            Self { time, step }
        });
        next.into_iter().chain(again).min_by_key(|next| next.time)
    }

    /// Returns true when it is still to come. The controller can be late with a step.
    pub(crate) fn is_due(self, now: Now) -> bool {
        now.led && (self.step != Step::AsksAgain || now.time < self.time)
    }

    /// Returns the time and the step, for the line of the pod: `until 22:05:42Z (in 42 s)`, or
    /// `at 22:05:42Z (in 42 s): gives up`. `None` while no controller works.
    pub(crate) fn text(self, now: Now) -> Option<String> {
        let time = now.at(self.time);
        self.is_due(now).then(|| match self.step {
            Step::WindowOpens | Step::SilenceEnds | Step::DelayEnds => format!("until {time}"),
            Step::AsksAgain => format!("at {time}: may be asked again"),
            Step::PassesBudget => format!("at {time}: passes the budget"),
            Step::CallersTimeEnds => format!("at {time}: evicts, unless its caller deletes it first"),
            Step::Deadline(action) => format!("at {time}: {}", act(action)),
        })
    }

    /// Returns the step for programs. A deadline is named by its act.
    pub(crate) fn object(self, pod: Option<&str>) -> Value {
        let act = match self.step {
            Step::WindowOpens => "WindowOpens".to_owned(),
            Step::SilenceEnds => "SilenceEnds".to_owned(),
            Step::DelayEnds => "DelayEnds".to_owned(),
            Step::AsksAgain => "AsksAgain".to_owned(),
            Step::PassesBudget => "PassesBudget".to_owned(),
            Step::CallersTimeEnds => "CallersTimeEnds".to_owned(),
            Step::Deadline(action) => format!("{action:?}"),
        };
        let time = self.time.to_rfc3339_opts(SecondsFormat::Secs, true);
        match pod {
            Some(pod) => json!({"pod": pod, "time": time, "act": act}),
            None => json!({"time": time, "act": act}),
        }
    }

    /// Returns the sentence of the step on the page of the pod.
    pub(crate) fn sentence(self, now: Now) -> Option<String> {
        let time = now.at(self.time);
        self.is_due(now).then(|| match self.step {
            Step::WindowOpens => format!("at {time}: its window opens"),
            Step::SilenceEnds => format!("at {time}: continues without an answer"),
            Step::DelayEnds => format!("at {time}: the delay ends"),
            Step::AsksAgain => format!("at {time}: may be asked again"),
            Step::PassesBudget => format!("from {time} on: the budget no longer holds its deletion"),
            Step::CallersTimeEnds => format!("at {time}: evicts, unless its caller deletes it first"),
            Step::Deadline(action) => format!("at {time}: {}", act(action)),
        })
    }
}

/// Returns the act of a deadline, in words.
fn act(action: DeadlineAction) -> &'static str {
    match action {
        DeadlineAction::Evict => "evicts",
        DeadlineAction::Delete => "deletes",
        DeadlineAction::GiveUp => "gives up",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(answer: &Value, deadline: Option<&str>) -> Evacuation {
        let mut responder = json!({
            "name": "self", "priority": 1, "timeoutSeconds": 60, "maxDelaySeconds": 600, "state": "Active",
            "activeTime": "2026-11-20T22:00:00Z",
        });
        for (key, value) in answer.as_object().unwrap() {
            responder[key] = value.clone();
        }
        let deadlines: Vec<Value> = deadline
            .map(|action| {
                json!({"owner": "alice", "requester": "a.b/c", "time": "2026-11-20T22:00:30Z", "action": action,
                       "reached": false})
            })
            .into_iter()
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "shop"},
            "spec": {"target": {"pod": {"name": "db-0"}}, "requesters": [{"name": "a.b/c", "owner": "alice"}]},
            "status": {"responders": [responder], "policy": {"onRefusal": "Wait", "deadlines": deadlines}},
        }))
        .unwrap()
    }

    #[test]
    fn the_next_step_is_named_with_the_act_of_its_deadline() {
        let mut now = Now { time: "2026-11-20T22:00:26Z".parse().unwrap(), led: true };
        let refused = json!({"answer": "Refuse", "answerTime": "2026-11-20T22:00:01Z"});
        let delayed = json!({"answer": "Delay", "delayUntil": "2026-11-20T22:00:27Z"});
        for (evacuation, text, sentence) in [
            (
                asked(&json!({}), None),
                "until 22:01:00Z (in 34 s)",
                "at 22:01:00Z (in 34 s): continues without an answer",
            ),
            (
                asked(&delayed, Some("Evict")),
                "until 22:00:27Z (in 1 s)",
                "at 22:00:27Z (in 1 s): the delay ends",
            ),
            (
                asked(&refused, Some("GiveUp")),
                "at 22:00:30Z (in 4 s): gives up",
                "at 22:00:30Z (in 4 s): gives up",
            ),
            (
                asked(&refused, Some("Evict")),
                "at 22:00:30Z (in 4 s): evicts",
                "at 22:00:30Z (in 4 s): evicts",
            ),
            (
                asked(&refused, Some("Delete")),
                "at 22:00:30Z (in 4 s): deletes",
                "at 22:00:30Z (in 4 s): deletes",
            ),
        ] {
            let next = Next::of(&evacuation).unwrap();
            assert!(next.object(None)["act"].is_string(), "{next:?}");
            assert_eq!(next.text(now).as_deref(), Some(text));
            assert_eq!(next.sentence(now).as_deref(), Some(sentence));
        }
        let mut again = refused.clone();
        again["retryTime"] = json!("2026-11-20T22:10:26Z");
        let next = Next::of(&asked(&again, None)).unwrap();
        assert_eq!(next.text(now).unwrap(), "at 22:10:26Z (in 10 min): may be asked again");
        let object = json!({"pod": "shop/db-0", "time": "2026-11-20T22:10:26Z", "act": "AsksAgain"});
        assert_eq!(next.object(Some("shop/db-0")), object);
        assert_eq!(Next::of(&asked(&refused, None)), None);
        let mut endpoint = refused.clone();
        endpoint["http"] = json!({"port": 8080});
        let next = Next::of(&asked(&endpoint, None)).unwrap();
        assert_eq!(next.text(now).unwrap(), "at 22:01:01Z (in 35 s): may be asked again");

        now.led = false;
        let next = Next::of(&asked(&json!({}), None)).unwrap();
        assert_eq!((next.text(now), next.sentence(now)), (None, None), "nothing happens by itself");
    }

    #[test]
    fn a_counted_deletion_that_a_budget_holds_names_the_end_of_its_patience_and_not_that_of_its_entry() {
        let mut counted = asked(&json!({"state": "Completed"}), Some("GiveUp"));
        counted.spec.requesters[0].budget_patience_seconds = Some(1800);
        let status = counted.status.as_mut().unwrap();
        let blocked = json!([{"type": "Blocked", "status": "True", "reason": "BudgetExhausted", "message": "",
                              "lastTransitionTime": "2026-11-20T22:00:00Z"}]);
        status.conditions = serde_json::from_value(blocked).unwrap();
        let eviction = json!({"budgetBlockedTime": "2026-11-20T22:00:20Z"});
        status.eviction = Some(serde_json::from_value(eviction).unwrap());
        let record =
            json!([{"owner": "alice", "name": "a.b/c", "user": "gateway", "time": "2026-11-20T22:00:00Z"}]);
        status.requesters = serde_json::from_value(record).unwrap();
        let next = Next::of(&counted).unwrap();
        assert_eq!(next.step, Step::PassesBudget);
        let now = Now { time: "2026-11-20T22:00:26Z".parse().unwrap(), led: true };
        let sentence = "from 22:30:20Z (in 29 min) on: the budget no longer holds its deletion";
        assert_eq!(next.sentence(now).as_deref(), Some(sentence));
    }

    #[test]
    fn a_pod_that_is_left_to_its_caller_names_the_time_from_which_the_controller_evicts() {
        let mut left = asked(&json!({"state": "Completed"}), Some("GiveUp"));
        left.spec.requesters[0].caller_deletes_within_seconds = Some(15);
        let eviction = json!({"nextAttemptTime": "2026-11-20T22:00:28Z"});
        left.status.as_mut().unwrap().eviction = Some(serde_json::from_value(eviction).unwrap());
        let next = Next::of(&left).unwrap();
        assert_eq!(next.step, Step::CallersTimeEnds);
        let now = Now { time: "2026-11-20T22:00:26Z".parse().unwrap(), led: true };
        let sentence = "at 22:00:28Z (in 2 s): evicts, unless its caller deletes it first";
        assert_eq!(next.sentence(now).as_deref(), Some(sentence));
        assert_eq!(next.text(now).as_deref(), Some(sentence));
    }
}
