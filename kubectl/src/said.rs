//! Words of requesters and responders, for people. Pure.

use evacuation_api::{ResponderState, ResponderStatus};

use crate::moment::Now;

/// Returns the line of a responder: when it was asked, its answer and until when that holds, its [`words`],
/// and its state.
pub(crate) fn answer(responder: &ResponderStatus, now: Now) -> String {
    let name = &responder.name;
    let time = responder.answer_time.map(|time| format!(" at {}", now.stamp(&time))).unwrap_or_default();
    let until = responder.delay_until.map(|time| format!(" until {}", now.stamp(&time))).unwrap_or_default();
    let said = words(responder);
    let state = match responder.state {
        ResponderState::Active => String::new(),
        state => format!(", {state:?}"),
    };
    let out_of_reach = responder.unreachable_time.filter(|_| responder.asked_time.is_none());
    match (responder.answer, responder.active_time) {
        (None, Some(_)) if let Some(since) = out_of_reach => {
            format!("{name} could not be reached since {}{said}{state}", now.stamp(&since))
        }
        (Some(answer), _) => format!("{name} answered {answer:?}{until}{time}{said}{state}"),
        (None, Some(asked)) => format!("{name} was asked at {}, no answer{said}{state}", now.stamp(&asked)),
        (None, None) => format!("{name} was not asked yet{state}"),
    }
}

/// Returns the reason and the message of a responder, and what has failed since it answered.
pub(crate) fn words(responder: &ResponderStatus) -> String {
    let said = remarks(responder.reason.as_ref(), responder.message.as_ref());
    let failure = responder.failure.as_ref().map(|failure| format!("; since then: {failure}"));
    said + &failure.unwrap_or_default()
}

/// Returns a reason and a message, each after a colon.
pub(crate) fn remarks(reason: Option<&String>, message: Option<&String>) -> String {
    let texts = [reason, message].into_iter().flatten();
    texts.fold(String::new(), |all, text| all + ": " + text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn responder(more: &Value) -> ResponderStatus {
        let mut responder = json!({"name": "self", "priority": 1, "timeoutSeconds": 60,
                                   "maxDelaySeconds": 600, "state": "Active",
                                   "activeTime": "2026-01-01T00:00:00Z"});
        responder.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(responder).unwrap()
    }

    #[test]
    fn a_responder_is_told_by_its_answer_its_words_and_what_failed_since() {
        let answered = "2026-01-01T00:00:05Z";
        let (until, failure) = ("2026-01-01T00:00:20Z", "it replied 500");
        for (more, expected) in [
            (json!({"activeTime": null, "state": "Inactive"}), "self was not asked yet, Inactive"),
            (json!({}), "self was asked at 00:00:00Z (10 s ago), no answer"),
            (
                json!({"message": "it replied 500"}),
                "self was asked at 00:00:00Z (10 s ago), no answer: it replied 500",
            ),
            (
                json!({"unreachableTime": answered, "message": "connection refused"}),
                "self could not be reached since 00:00:05Z (5 s ago): connection refused",
            ),
            (
                json!({"answer": "Accept", "answerTime": answered, "state": "Completed"}),
                "self answered Accept at 00:00:05Z (5 s ago), Completed",
            ),
            (
                json!({"answer": "Refuse", "answerTime": answered, "reason": "Busy",
                       "message": "a job runs", "failure": failure}),
                "self answered Refuse at 00:00:05Z (5 s ago): Busy: a job runs; since then: it replied 500",
            ),
            (
                json!({"answer": "Delay", "answerTime": answered, "delayUntil": until, "failure": failure}),
                "self answered Delay until 00:00:20Z (in 10 s) at 00:00:05Z (5 s ago); since then: \
                 it replied 500",
            ),
        ] {
            let now = Now { time: "2026-01-01T00:00:10Z".parse().unwrap(), led: true };
            assert_eq!(answer(&responder(&more), now), expected, "{more}");
        }
    }
}
