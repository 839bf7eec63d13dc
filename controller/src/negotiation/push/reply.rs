//! Reading of an endpoint's reply: whatever shows its meaning is accepted, and values out of range are
//! clamped.
//!
//! An answer that the server would reject counts as no answer, and its app would be evicted. So the
//! controller corrects everything that has one meaning, and names the rest in an error.

use evacuation_api::{Answer, MAX_DELAY_SECONDS, MAX_MESSAGE_LENGTH, MAX_REASON_LENGTH, ReviewResponse};
use serde_json::{Map, Value};

/// Mark at the end of a message that was cut.
const CUT: &str = "…";

/// Returns the answer of a reply; `None` when the reply holds none.
///
/// # Errors
///
/// Names the field that has no single meaning, and its value.
pub(crate) fn read_reply(body: &[u8]) -> Result<Option<ReviewResponse>, String> {
    let review: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let review = review.as_object().ok_or("it is not a JSON object")?;
    let response = match review.get("response") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(response)) => response,
        Some(other) => return Err(format!("response is {} and not an object", brief(other))),
    };
    let answer = answer(response)?;
    let delay_seconds = (answer == Answer::Delay).then(|| seconds(response, "delaySeconds")).transpose()?;
    let delay_seconds = match delay_seconds {
        Some(None) => return Err("response.delaySeconds is missing: Delay needs its length".to_owned()),
        given => given.flatten(),
    };
    let retry_after_seconds =
        (answer == Answer::Refuse).then(|| seconds(response, "retryAfterSeconds")).transpose()?;
    let (reason, message) = words(text(response, "reason"), text(response, "message"));
    Ok(Some(ReviewResponse {
        evacuation_uid: uid(response, "evacuationUid")?,
        pod_uid: uid(response, "podUid")?,
        answer,
        delay_seconds,
        retry_after_seconds: retry_after_seconds.flatten(),
        reason,
        message,
    }))
}

fn answer(response: &Map<String, Value>) -> Result<Answer, String> {
    let given = response.get("answer").unwrap_or(&Value::Null);
    let word = given.as_str().unwrap_or_default().trim();
    [("Accept", Answer::Accept), ("Delay", Answer::Delay), ("Refuse", Answer::Refuse)]
        .into_iter()
        .find_map(|(name, answer)| word.eq_ignore_ascii_case(name).then_some(answer))
        .ok_or_else(|| format!("response.answer is {}: it must be Accept, Delay or Refuse", brief(given)))
}

fn uid(response: &Map<String, Value>, field: &str) -> Result<String, String> {
    let uid = response.get(field).and_then(Value::as_str).filter(|uid| !uid.is_empty());
    uid.map(str::to_owned).ok_or_else(|| format!("response.{field} is missing: repeat it from the request"))
}

/// Whole seconds within the range that the server accepts; part of a second counts as a whole one.
fn seconds(response: &Map<String, Value>, field: &str) -> Result<Option<i64>, String> {
    let given = match response.get(field) {
        None | Some(Value::Null) => return Ok(None),
        Some(given) => given,
    };
    let number = match given {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let number = number.filter(|number| !number.is_nan());
    let number = number.ok_or_else(|| format!("response.{field} is {} and not a number", brief(given)))?;
    #[expect(clippy::cast_precision_loss, reason = "30 days in seconds are exact")]
    let number = number.ceil().clamp(1.0, MAX_DELAY_SECONDS as f64);
    #[expect(clippy::cast_possible_truncation, reason = "clamped and whole")]
    Ok(Some(number as i64))
}

fn text(response: &Map<String, Value>, field: &str) -> Option<String> {
    match response.get(field)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Reason and message as the server accepts them. A reason that is not CamelCase moves to the front of the
/// message.
fn words(reason: Option<String>, message: Option<String>) -> (Option<String>, Option<String>) {
    let (reason, message) = match (reason.filter(|reason| !reason.is_empty()), message) {
        (Some(reason), message) if is_reason(&reason) => (Some(reason), message),
        (Some(words), Some(message)) => (None, Some(format!("{words}: {message}"))),
        (words, message) => (None, words.or(message)),
    };
    (reason, message.map(|message| cut(&message)))
}

fn is_reason(reason: &str) -> bool {
    reason.len() <= MAX_REASON_LENGTH
        && reason.starts_with(|c: char| c.is_ascii_uppercase())
        && reason.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// The message without control characters, cut to the longest that the server accepts.
fn cut(message: &str) -> String {
    let plain = |c: char| if c.is_control() && c != '\n' && c != '\t' { ' ' } else { c };
    let message: String = message.chars().map(plain).collect();
    if message.len() <= MAX_MESSAGE_LENGTH {
        return message;
    }
    let end = message.floor_char_boundary(MAX_MESSAGE_LENGTH.saturating_sub(CUT.len()));
    format!("{}{CUT}", message.get(..end).unwrap_or_default())
}

/// A value as it fits into an Event.
fn brief(value: &Value) -> String {
    let text = value.to_string();
    let end = text.floor_char_boundary(80);
    if end == text.len() { text } else { format!("{}{CUT}", text.get(..end).unwrap_or_default()) }
}

#[cfg(test)]
mod tests {
    use evacuation_api::{EvacuationResponse, EvacuationResponseSpec, validate_response};
    use serde_json::json;

    use super::*;

    fn read(response: &Value) -> Result<Option<ReviewResponse>, String> {
        let mut reply = json!({"response": {"evacuationUid": "e1", "podUid": "p1"}});
        for (field, value) in response.as_object().unwrap() {
            reply["response"][field] = value.clone();
        }
        read_reply(reply.to_string().as_bytes())
    }

    #[test]
    fn an_answer_with_one_meaning_is_corrected_to_one_that_the_server_accepts() {
        let long = "x".repeat(65 << 10);
        let table = [
            (json!({"answer": "accept"}), (Answer::Accept, None, None)),
            (json!({"answer": " REFUSE "}), (Answer::Refuse, None, None)),
            (
                json!({"answer": "Accept", "delaySeconds": 9, "retryAfterSeconds": 9}),
                (Answer::Accept, None, None),
            ),
            (json!({"answer": "Delay", "delaySeconds": 0}), (Answer::Delay, Some(1), None)),
            (json!({"answer": "Delay", "delaySeconds": -5}), (Answer::Delay, Some(1), None)),
            (json!({"answer": "Delay", "delaySeconds": 1.5}), (Answer::Delay, Some(2), None)),
            (json!({"answer": "Delay", "delaySeconds": "30"}), (Answer::Delay, Some(30), None)),
            (
                json!({"answer": "Delay", "delaySeconds": u64::MAX}),
                (Answer::Delay, Some(MAX_DELAY_SECONDS), None),
            ),
            (json!({"answer": "Refuse", "retryAfterSeconds": 0}), (Answer::Refuse, None, Some(1))),
            (json!({"answer": "Refuse", "message": long}), (Answer::Refuse, None, None)),
            (json!({"answer": "Refuse", "message": "ü".repeat(5000)}), (Answer::Refuse, None, None)),
            (json!({"answer": "Refuse", "message": "a\u{7}b", "reason": long}), (Answer::Refuse, None, None)),
        ];
        for (given, (answer, delay_seconds, retry_after_seconds)) in table {
            let found = read(&given).unwrap().unwrap();
            let spec = EvacuationResponseSpec {
                answer: Some(answer),
                delay_seconds,
                retry_after_seconds,
                reason: found.reason.clone(),
                message: found.message.clone(),
                ..EvacuationResponseSpec::default()
            };
            assert_eq!((found.answer, found.delay_seconds), (answer, delay_seconds), "{given}");
            assert_eq!(found.retry_after_seconds, retry_after_seconds, "{given}");
            assert!(validate_response(&EvacuationResponse::new(spec)).is_empty(), "{given}");
        }
    }

    #[test]
    fn a_reason_that_is_not_camel_case_becomes_part_of_the_message() {
        let said = |reason: &str, message: Value| {
            let found = read(&json!({"answer": "Refuse", "reason": reason, "message": message}));
            let found = found.unwrap().unwrap();
            (found.reason, found.message)
        };
        assert_eq!(said("Busy", json!("a job")), (Some("Busy".to_owned()), Some("a job".to_owned())));
        assert_eq!(said("so busy", json!("a job")), (None, Some("so busy: a job".to_owned())));
        assert_eq!(said("so busy", Value::Null), (None, Some("so busy".to_owned())));
    }

    #[test]
    fn an_answer_without_one_meaning_is_named() {
        let table = [
            (json!({"answer": "Maybe"}), "response.answer is \"Maybe\": it must be Accept, Delay or Refuse"),
            (json!({}), "response.answer is null: it must be Accept, Delay or Refuse"),
            (json!({"answer": "Delay"}), "response.delaySeconds is missing: Delay needs its length"),
            (json!({"answer": "Delay", "delaySeconds": []}), "response.delaySeconds is [] and not a number"),
            (
                json!({"answer": "Accept", "podUid": 7}),
                "response.podUid is missing: repeat it from the request",
            ),
        ];
        for (given, expected) in table {
            assert_eq!(read(&given).unwrap_err(), expected, "{given}");
        }
        assert_eq!(read_reply(b"{}"), Ok(None));
        assert_eq!(read_reply(br#"{"response": 7}"#).unwrap_err(), "response is 7 and not an object");
    }
}
