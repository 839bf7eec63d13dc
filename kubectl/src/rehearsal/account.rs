//! The answers in a rehearsal, as they come, and what a real request would meet. Pure.

use std::collections::BTreeSet;

use evacuation_api::{
    Answer, BlockedReason, ConditionType, Evacuation, EvacuationStatus, FailedReason, ResponderState,
    ResponderStatus,
};
use evacuation_client::End;
use evacuation_protocol::asked_responders;

use crate::{moment::Now, plain::plain, said::words};

/// The lines that were shown.
#[derive(Debug, Default)]
pub(super) struct Account {
    shown: BTreeSet<String>,
}

/// The end of a rehearsal, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Every responder gave a valid answer.
    Passed(String),
    /// One did not, or nobody was asked.
    Failed(String),
}

impl Account {
    /// Returns a line for each thing that was not shown yet.
    pub(super) fn news(&mut self, evacuation: &Evacuation, now: Now) -> Vec<String> {
        let Some(status) = &evacuation.status else { return Vec::new() };
        let mut lines: Vec<(String, String)> = Vec::new();
        if let Some(problem) = status.registration.as_ref().and_then(|found| found.unreadable.as_ref()) {
            let line = format!("the annotation evacuation.dev/responders cannot be read: {problem}");
            lines.push(("annotation".to_owned(), line));
        }
        if status.reason() == Some(BlockedReason::AwaitingTurn)
            && let Some(blocked) = status.true_condition(ConditionType::Blocked)
        {
            lines.push(("turn".to_owned(), format!("waiting: {}", blocked.message)));
        }
        for responder in status.responders.iter().flatten() {
            lines.extend(told(responder, now));
        }
        for responder in asked_responders(status).into_iter().filter(|known| known.cancellation_acknowledged)
        {
            let name = &responder.name;
            lines.push((format!("{name} end"), format!("{name}: knows that it is over")));
        }
        let new = lines.into_iter().filter(|(topic, _)| self.shown.insert(topic.clone()));
        new.map(|(_, line)| plain(&line)).collect()
    }
}

impl Outcome {
    /// Returns the end of the rehearsal, if it has ended.
    pub(super) fn of(evacuation: &Evacuation) -> Option<Self> {
        let end = End::of(evacuation)?;
        let status = evacuation.status.as_ref()?;
        Some(match (end, status.reason()) {
            (_, Some(FailedReason::Rehearsed)) => Self::judged(status),
            (End::Failed { .. }, Some(FailedReason::DeadlineGaveUp)) => {
                Self::Failed("its time was over before every responder was asked".to_owned())
            }
            (End::Failed { message, .. }, _) => Self::Failed(format!("it was canceled: {message}")),
            (End::Evacuated { message, .. }, _) => {
                Self::Failed(format!("it could not end, because {message}"))
            }
        })
    }

    fn judged(status: &EvacuationStatus) -> Self {
        let responders = status.responders.as_deref().unwrap_or_default();
        if responders.is_empty() {
            let words = "no responder is registered: a real request evicts the pod unasked";
            return Self::Failed(words.to_owned());
        }
        let silent: Vec<_> = responders.iter().filter(|known| known.answer.is_none()).map(name).collect();
        if !silent.is_empty() {
            return Self::Failed(format!("no valid answer of {}", silent.join(", ")));
        }
        let first = |answer| responders.iter().find(|known| known.answer == Some(answer)).map(name);
        Self::Passed(match (first(Answer::Refuse), first(Answer::Delay)) {
            (Some(name), _) => format!("a real request would be refused by {name}"),
            (None, Some(name)) => format!("a real request would wait for {name}"),
            (None, None) => "a real request would evict the pod now, within its budgets".to_owned(),
        })
    }
}

/// Returns true when every responder that was asked has acknowledged the end.
pub(super) fn all_acknowledged(evacuation: &Evacuation) -> bool {
    let status = evacuation.status.as_ref();
    status.is_some_and(|status| asked_responders(status).iter().all(|known| known.cancellation_acknowledged))
}

fn name(responder: &ResponderStatus) -> &str {
    &responder.name
}

/// Returns the topic and the line of a responder, if there is something to say.
fn told(responder: &ResponderStatus, now: Now) -> Option<(String, String)> {
    let name = &responder.name;
    let said = words(responder);
    if let Some(answer) = responder.answer {
        return Some((
            format!("{name} answer"),
            format!("{name}: {}{said}", answered(responder, answer, now)),
        ));
    }
    let Some(since) = responder.active_time else {
        let passed_over = responder.state == ResponderState::Interrupted;
        return passed_over.then(|| (format!("{name} over"), format!("{name}: not asked{said}")));
    };
    match responder.state {
        ResponderState::Active if said.is_empty() => {
            let until = since.0 + chrono::TimeDelta::seconds(responder.timeout_seconds);
            let line = format!("{name}: asked {}, has until {}", by(responder), now.at(until));
            Some((format!("{name} asked"), line))
        }
        ResponderState::Active => {
            Some((format!("{name}{said}"), format!("{name}: no valid answer yet{said}")))
        }
        _ => Some((format!("{name} over"), format!("{name}: no valid answer{said}"))),
    }
}

fn by(responder: &ResponderStatus) -> String {
    match (&responder.http, &responder.service) {
        (Some(http), _) => {
            format!("over HTTP at port {}{}", http.port, http.path.as_deref().unwrap_or("/evacuation"))
        }
        (None, Some(service)) => format!("over HTTP at service {}", service.name),
        (None, None) => "by watch".to_owned(),
    }
}

fn answered(responder: &ResponderStatus, answer: Answer, now: Now) -> String {
    let times = responder.answer_time.zip(responder.active_time);
    let after = times.map(|(answered, asked)| (answered.0 - asked.0).num_milliseconds().max(0));
    let after = after.map_or_else(String::new, |ms| format!(" after {}.{} s", ms / 1000, ms % 1000 / 100));
    let granted = responder.delay_until.zip(responder.answer_time);
    let granted = granted.map(|(until, answered)| (until.0 - answered.0).num_seconds());
    match (answer, granted, responder.retry_time) {
        (Answer::Delay, Some(seconds), _) => format!("Delay of {seconds} s{after}"),
        (Answer::Refuse, _, Some(retry)) => {
            format!("Refuse{after}, may be asked again at {}", now.stamp(&retry))
        }
        _ => format!("{answer:?}{after}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns a rehearsal with these responders, whose times are the default ones where they give none.
    fn rehearsal(responders: &Value, end: Option<&str>) -> Evacuation {
        let mut responders = responders.clone();
        for responder in responders.as_array_mut().unwrap() {
            for (field, value) in [("priority", 10_000), ("timeoutSeconds", 60), ("maxDelaySeconds", 3600)] {
                responder.as_object_mut().unwrap().entry(field).or_insert(json!(value));
            }
        }
        let conditions = end.map(|reason| {
            let (time, message) = ("2026-11-25T03:00:05Z", "over");
            json!([{"type": "Failed", "status": "True", "reason": reason, "message": message, "lastTransitionTime": time}])
        });
        serde_json::from_value(json!({
            "metadata": {"name": "db-0-test-x"},
            "spec": {"target": {"pod": {"name": "db-0"}}, "rehearsal": true},
            "status": {"responders": responders, "conditions": conditions.unwrap_or_else(|| json!([]))},
        }))
        .unwrap()
    }

    fn now() -> Now {
        Now { time: "2026-11-25T03:00:00Z".parse().unwrap(), led: true }
    }

    const ASKED: &str = "2026-11-25T03:00:00Z";
    const ANSWERED: &str = "2026-11-25T03:00:01.300Z";

    #[test]
    fn each_answer_is_shown_once_with_its_time_and_its_words() {
        let asked = json!({"name": "self", "state": "Active", "activeTime": ASKED, "timeoutSeconds": 60});
        let with = |more: Value| {
            let mut responder = asked.clone();
            responder.as_object_mut().unwrap().append(&mut more.as_object().unwrap().clone());
            rehearsal(&json!([responder]), None)
        };
        let delay = json!({"answer": "Delay", "answerTime": ANSWERED, "delayUntil": "2026-11-25T03:00:31.300Z", "message": "a job runs"});
        let refuse = json!({"answer": "Refuse", "answerTime": ANSWERED, "reason": "Busy", "retryTime": "2026-11-25T03:05:00Z"});
        let table = [
            (with(json!({})), "self: asked by watch, has until 03:01:00Z (in 60 s)"),
            (
                with(json!({"http": {"port": 8080}})),
                "self: asked over HTTP at port 8080/evacuation, has until 03:01:00Z (in 60 s)",
            ),
            (with(json!({"message": "status 500"})), "self: no valid answer yet: status 500"),
            (with(delay), "self: Delay of 30 s after 1.3 s: a job runs"),
            (with(refuse), "self: Refuse after 1.3 s, may be asked again at 03:05:00Z (in 5 min): Busy"),
            (with(json!({"answer": "Accept", "answerTime": ANSWERED})), "self: Accept after 1.3 s"),
            (
                with(json!({"state": "Interrupted", "message": "it was silent for 60 s"})),
                "self: no valid answer: it was silent for 60 s",
            ),
        ];
        for (evacuation, expected) in table {
            let mut account = Account::default();
            assert_eq!(account.news(&evacuation, now()), [expected]);
            assert_eq!(account.news(&evacuation, now()), Vec::<String>::new(), "{expected}");
        }
        let unasked =
            json!([{"name": "self", "state": "Interrupted", "message": "no container of the pod runs"}]);
        let news = Account::default().news(&rehearsal(&unasked, None), now());
        assert_eq!(news, ["self: not asked: no container of the pod runs"]);
    }

    #[test]
    fn a_rehearsal_passes_when_every_responder_answered_and_says_what_a_real_request_meets() {
        let failed = |words: &str| Some(Outcome::Failed(words.to_owned()));
        let passed = |words: &str| Some(Outcome::Passed(words.to_owned()));
        let all = |answers: &[Option<&str>]| {
            let one = |(i, answer): (usize, Option<&str>)| json!({"name": format!("a.b/{i}"), "state": "Canceled", "activeTime": ASKED, "answer": answer});
            json!(answers.iter().copied().enumerate().map(one).collect::<Vec<_>>())
        };
        let (accept, delay, refuse) = (Some("Accept"), Some("Delay"), Some("Refuse"));
        let table = [
            (
                all(&[accept]),
                Some("Rehearsed"),
                passed("a real request would evict the pod now, within its budgets"),
            ),
            (all(&[accept, delay]), Some("Rehearsed"), passed("a real request would wait for a.b/1")),
            (all(&[delay, refuse]), Some("Rehearsed"), passed("a real request would be refused by a.b/1")),
            (all(&[accept, None]), Some("Rehearsed"), failed("no valid answer of a.b/1")),
            (
                all(&[]),
                Some("Rehearsed"),
                failed("no responder is registered: a real request evicts the pod unasked"),
            ),
            (
                all(&[None]),
                Some("DeadlineGaveUp"),
                failed("its time was over before every responder was asked"),
            ),
            (all(&[accept]), Some("Canceled"), failed("it was canceled: over")),
            (all(&[accept]), None, None),
        ];
        for (responders, end, expected) in table {
            assert_eq!(Outcome::of(&rehearsal(&responders, end)), expected, "{responders} {end:?}");
        }
    }

    #[test]
    fn the_end_counts_as_known_once_every_responder_that_was_asked_has_acknowledged_it() {
        let one = |acknowledged: bool| {
            json!([
                {"name": "a.b/unasked", "state": "Canceled"},
                {"name": "self", "state": "Canceled", "activeTime": ASKED, "answer": "Accept",
                 "answerTime": ANSWERED, "cancellationAcknowledged": acknowledged},
            ])
        };
        let ended = |acknowledged| rehearsal(&one(acknowledged), Some("Rehearsed"));
        assert!(!all_acknowledged(&ended(false)));
        assert!(all_acknowledged(&ended(true)));
        let news = Account::default().news(&ended(true), now());
        assert_eq!(news, ["self: Accept after 1.3 s", "self: knows that it is over"]);
    }
}
