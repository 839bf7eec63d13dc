//! Reading of an endpoint's reply: whatever shows its meaning is accepted, and values out of range are
//! clamped.
//!
//! An answer that the server would reject counts as no answer, and its app would be evicted. So the
//! controller corrects everything that has one meaning, takes the more careful of several, and names the rest
//! in an error. A refusal or a delay counts even in a reply that no parser reads.

mod compressed;
mod pieces;
mod text;

use evacuation_api::{
    Answer, Json, JsonFields, MAX_DELAY_SECONDS, MAX_MESSAGE_LENGTH, MAX_REASON_LENGTH, ReviewResponse,
};
use evacuation_protocol::MIN_ENDPOINT_DELAY_SECONDS;
use serde_json::Value;

pub(crate) use self::compressed::expanded;
use self::{pieces::pieces, text::decoded};

/// Mark at the end of a message that was cut.
const CUT: &str = "…";

/// Returns the answer of a reply; `None` when the reply holds none. `charset` is the encoding that the
/// endpoint names.
///
/// # Errors
///
/// Names the field that has no single meaning, and its value.
pub(crate) fn read_reply(body: &[u8], charset: Option<&str>) -> Result<Option<ReviewResponse>, String> {
    let text = decoded(body, charset);
    let (whole, rest) = match Json::read_row(&text) {
        Ok((row, rest)) => (read_row(&row), rest),
        Err(error) => (Err(error.to_string()), String::new()),
    };
    let pieces = match &whole {
        Ok(Some(found)) => read_pieces(&rest, "more than JSON is between its answers")
            .filter(|other| care(other.answer) > care(found.answer)),
        Ok(None) => read_pieces(&text, "no answer is where one belongs"),
        Err(problem) => read_pieces(&text, problem),
    };
    pieces.map_or(whole, |response| Ok(Some(response)))
}

/// Reads the JSON values that a text begins with.
fn read_row(row: &[Json]) -> Result<Option<ReviewResponse>, String> {
    let mut objects = Vec::new();
    let mut has_response = false;
    for value in row {
        let Json::Object(fields) = value else { continue };
        // An answer beside the response counts as well.
        let beside = JsonFields::of(fields);
        for given in beside.all("response") {
            match given {
                Json::Object(fields) => objects.push(JsonFields::of(fields)),
                other => return Err(format!("response is {} and not an object", brief(other))),
            }
            has_response = true;
        }
        objects.push(beside);
    }
    if objects.is_empty() {
        return Err("it is not a JSON object".to_owned());
    }
    let all = JsonFields::all_of(&objects);
    if !has_response && all.all("answer").next().is_none() {
        return Ok(None);
    }
    let answer = answer(&all)?;
    // The words of an answer that does not count are not its own.
    let said = objects.iter().find(|object| object.all("answer").any(|given| word(given) == Some(answer)));
    let said = said.unwrap_or(&all);
    let words = words(said.text("reason"), said.text("message"));
    response(&all, answer, words).map(Some)
}

/// Returns the refusal or the delay of a text that is no JSON, or has its answer elsewhere. Consent must be
/// readable.
fn read_pieces(text: &str, problem: &str) -> Option<ReviewResponse> {
    let pieces = pieces(text);
    let fields = JsonFields::of(&pieces);
    let answer = answer(&fields).ok().filter(|answer| *answer != Answer::Accept)?;
    let message = format!("its reply says so, and cannot be read as a whole: {problem}");
    response(&fields, answer, words(None, Some(message))).ok()
}

/// Returns an answer with the fields that go with it, and its words: reason and message.
fn response(
    fields: &JsonFields<'_>,
    answer: Answer,
    (reason, message): (Option<String>, Option<String>),
) -> Result<ReviewResponse, String> {
    let Length { seconds, problem } = length(fields, answer);
    let message = match (message, problem) {
        (Some(message), Some(problem)) => Some(cut(&format!("{message} ({problem})"))),
        (message, problem) => message.or(problem.map(|problem| cut(&problem))),
    };
    let (delay_seconds, retry_after_seconds) =
        if answer == Answer::Delay { (seconds, None) } else { (None, seconds) };
    Ok(ReviewResponse {
        evacuation_uid: uid(fields, "evacuationUid")?,
        pod_uid: uid(fields, "podUid")?,
        answer,
        delay_seconds,
        retry_after_seconds,
        reason,
        message,
    })
}

/// The seconds of an answer, and what is wrong with those that were given.
struct Length {
    seconds: Option<i64>,
    problem: Option<String>,
}

/// Returns the seconds that go with an answer. A length that cannot be read costs no app its answer: a delay
/// gets the shortest one that its endpoint can renew.
fn length(fields: &JsonFields<'_>, answer: Answer) -> Length {
    let given = match answer {
        Answer::Accept => Ok(None),
        Answer::Delay => seconds(fields, "delaySeconds")
            .and_then(|given| given.map(Some).ok_or_else(|| "response.delaySeconds is missing".to_owned())),
        Answer::Refuse => seconds(fields, "retryAfterSeconds"),
    };
    match given {
        Ok(seconds) => Length { seconds, problem: None },
        Err(problem) => {
            let seconds = (answer == Answer::Delay).then_some(MIN_ENDPOINT_DELAY_SECONDS);
            Length { seconds, problem: Some(problem) }
        }
    }
}

/// Returns the most careful answer. A word that is none could mean a refusal: only another refusal makes it
/// unimportant.
fn answer(response: &JsonFields<'_>) -> Result<Answer, String> {
    let unreadable =
        |given: String| format!("response.answer is {given}: it must be Accept, Delay or Refuse");
    let mut found = Vec::new();
    let mut other = None;
    for given in response.all("answer") {
        match word(given) {
            Some(answer) => found.push(answer),
            None => other = Some(unreadable(brief(given))),
        }
    }
    match (found.into_iter().max_by_key(|answer| care(*answer)), other) {
        (Some(Answer::Refuse), _) => Ok(Answer::Refuse),
        (_, Some(problem)) => Err(problem),
        (Some(answer), None) => Ok(answer),
        (None, None) => Err(unreadable("null".to_owned())),
    }
}

fn care(answer: Answer) -> u8 {
    match answer {
        Answer::Accept => 0,
        Answer::Delay => 1,
        Answer::Refuse => 2,
    }
}

/// Returns the answer of a word, which may be in the past tense.
fn word(given: &Json) -> Option<Answer> {
    [
        (["Accept", "Accepted"], Answer::Accept),
        (["Delay", "Delayed"], Answer::Delay),
        (["Refuse", "Refused"], Answer::Refuse),
    ]
    .into_iter()
    .find_map(|(names, answer)| names.iter().any(|name| given.is_word(name)).then_some(answer))
}

/// Returns a UID without the blanks and quotes around it, which a shell script leaves.
fn uid(response: &JsonFields<'_>, field: &str) -> Result<String, String> {
    let mut texts = response.all(field).filter_map(|given| match given {
        Json::Other(Value::String(uid)) => {
            Some(uid.trim_matches(|c: char| c.is_whitespace() || c == '"').to_owned())
        }
        _ => None,
    });
    texts
        .find(|uid| !uid.is_empty())
        .ok_or_else(|| format!("response.{field} is missing: repeat it from the request"))
}

/// Whole seconds within the range that the server accepts, the most that is given.
fn seconds(response: &JsonFields<'_>, field: &str) -> Result<Option<i64>, String> {
    let mut most = None;
    for given in response.all(field) {
        let number = given.seconds();
        let number =
            number.ok_or_else(|| format!("response.{field} is {} and not a number", brief(given)))?;
        most = most.max(Some(number.clamp(1, MAX_DELAY_SECONDS)));
    }
    Ok(most)
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
fn brief(value: &Json) -> String {
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
        read_reply(reply.to_string().as_bytes(), None)
    }

    #[test]
    fn an_answer_with_one_meaning_is_corrected_to_one_that_the_server_accepts() {
        let long = "x".repeat(65 << 10);
        let table = [
            (json!({"answer": "accept"}), (Answer::Accept, None, None)),
            (json!({"answer": " REFUSE "}), (Answer::Refuse, None, None)),
            (json!({"answer": "refused"}), (Answer::Refuse, None, None)),
            (json!({"answer": "Accepted"}), (Answer::Accept, None, None)),
            (json!({"answer": "Delayed", "delaySeconds": 9}), (Answer::Delay, Some(9), None)),
            (
                json!({"answer": "Accept", "delaySeconds": 9, "retryAfterSeconds": 9}),
                (Answer::Accept, None, None),
            ),
            (json!({"answer": "Delay", "delaySeconds": 0}), (Answer::Delay, Some(1), None)),
            (json!({"answer": "Delay", "delaySeconds": -5}), (Answer::Delay, Some(1), None)),
            (json!({"answer": "Delay", "delaySeconds": 1.5}), (Answer::Delay, Some(2), None)),
            (json!({"answer": "Delay", "delaySeconds": "30"}), (Answer::Delay, Some(30), None)),
            (json!({"answer": "Delay", "delaySeconds": "5m"}), (Answer::Delay, Some(10), None)),
            (json!({"answer": "Delay", "delaySeconds": []}), (Answer::Delay, Some(10), None)),
            (json!({"answer": "Delay"}), (Answer::Delay, Some(10), None)),
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
    fn an_answer_counts_although_its_time_cannot_be_read() {
        for (answer, field, delay) in
            [("Refuse", "retryAfterSeconds", None), ("Delay", "delaySeconds", Some(10))]
        {
            for time in [json!("5m"), json!("soon"), json!("Thu, 26 Nov 2026 12:18:27 GMT"), json!([])] {
                for (message, start) in [(json!("a backup"), "a backup ("), (Value::Null, "")] {
                    let given = json!({"answer": answer, field: time, "message": message});
                    let found = read(&given).unwrap().unwrap();
                    assert_eq!((found.delay_seconds, found.retry_after_seconds), (delay, None), "{given}");
                    let said = found.message.unwrap();
                    let expected = format!("{start}response.{field} is {time} and not a number");
                    assert!(said.starts_with(&expected), "{given}: {said}");
                }
            }
            let cut = format!(
                r#"{{"response": {{"evacuationUid": "e1", "podUid": "p1", "answer": "{answer}", "{field}": "5m",}}}}"#
            );
            assert_eq!(read_reply(cut.as_bytes(), None).unwrap().unwrap().delay_seconds, delay);
        }
        let said = read(&json!({"answer": "Delay"})).unwrap().unwrap().message;
        assert_eq!(said.as_deref(), Some("response.delaySeconds is missing"));
    }

    #[test]
    fn a_reply_is_read_whatever_its_framework_adds() {
        let uids = r#""evacuationUid": "e1", "podUid": "p1""#;
        let table = [
            (format!(r#"{{"response": {{{uids}, "answer": "Refuse"}}}} trailing"#), Answer::Refuse),
            (format!("\u{feff} {{\"response\": {{{uids}, \"answer\": \"Refuse\", \"message\": \"a\nb\"}}}}"), Answer::Refuse),
            (format!(r#"{{"response": {{{uids}, "answer": "Refuse", "message": "\ud83d"}}}}"#), Answer::Refuse),
            (r#"{"Response": {"EvacuationUid": "e1", "PodUID": "p1", "Answer": "Accept"}}"#.into(), Answer::Accept),
            (
                r#"{"response": {"evacuation_uid": "e1", "pod_uid": "p1", "answer": "Delay", "delay_seconds": 9}}"#
                    .into(),
                Answer::Delay,
            ),
            (format!(r#"{{{uids}, "answer": "Refuse"}}"#), Answer::Refuse),
            (json!(format!(r#"{{"response": {{{uids}, "answer": "Refuse"}}}}"#)).to_string(), Answer::Refuse),
            (
                format!(r#"{{"level": "info", "msg": "asked"}}
{{"response": {{{uids}, "answer": "Accept"}}}}"#),
                Answer::Accept,
            ),
            (r#"{"response": {"evacuationUid": "\"e1\"\n", "podUid": " p1\n", "answer": "Refuse"}}"#.into(), Answer::Refuse),
        ];
        for (body, expected) in table {
            let found = read_reply(body.as_bytes(), None).unwrap_or_else(|error| panic!("{body}: {error}"));
            let found = found.unwrap();
            assert_eq!((found.answer, found.evacuation_uid.as_str()), (expected, "e1"), "{body}");
            assert_eq!(found.pod_uid, "p1", "{body}");
        }
    }

    #[test]
    fn of_contradictory_fields_the_more_careful_one_counts() {
        let of = |fields: &str| {
            let body = format!(r#"{{"response": {{"evacuationUid": "e1", "podUid": "p1", {fields}}}}}"#);
            let found = read_reply(body.as_bytes(), None).map(Option::unwrap);
            found.map(|found| (found.answer, found.delay_seconds))
        };
        let table = [
            (r#""answer": "Refuse", "answer": "Accept""#, (Answer::Refuse, None)),
            (r#""answer": "Accept", "Answer": "Refuse""#, (Answer::Refuse, None)),
            (r#""answer": "Accept", "answer": "Delay", "delaySeconds": 5"#, (Answer::Delay, Some(5))),
            (r#""answer": "Delay", "delaySeconds": 50, "delay_seconds": 5"#, (Answer::Delay, Some(50))),
            (r#""answer": null, "answer": "Accept""#, (Answer::Accept, None)),
            (r#""answer": "No", "answer": "Refuse""#, (Answer::Refuse, None)),
        ];
        for (fields, expected) in table {
            assert_eq!(of(fields), Ok(expected), "{fields}");
        }
        let problem = of(r#""answer": "Accept", "answer": "No""#).unwrap_err();
        assert!(problem.starts_with("response.answer is \"No\""), "{problem}");
        for two in [
            r#"{"response": {"evacuationUid": "e1", "podUid": "p1", "answer": "Accept", "message": "go"}, "response": {"answer": "Refuse", "message": "no"}}"#,
            r#"{"answer": "Refuse", "message": "no", "response": {"evacuationUid": "e1", "podUid": "p1", "answer": "Accept", "message": "go"}}"#,
            r#"{"response": {"evacuationUid": "e1", "podUid": "p1", "answer": "Accept", "message": "go"}} {"response": {"answer": "Refuse", "message": "no"}}"#,
        ] {
            let found = read_reply(two.as_bytes(), None).unwrap().unwrap();
            assert_eq!((found.answer, found.message.as_deref()), (Answer::Refuse, Some("no")), "{two}");
        }
        let uids = r#""evacuationUid": "e1", "podUid": "p1""#;
        for (rest, expected) in [
            (format!(r#"<b>Warning</b>: x {{"response": {{{uids}, "answer": "Refuse"}}}}"#), Answer::Refuse),
            (format!(r#"{{"response": {{{uids}, "answer": "Delay", "delaySeconds": 9,}}}}"#), Answer::Delay),
            (format!(r#"<b>Warning</b>: x {{"response": {{{uids}, "answer": "Accept"}}}}"#), Answer::Accept),
            (r#"<b>Warning</b>: "answer": "Refuse" is not set"#.to_owned(), Answer::Accept),
        ] {
            let two = format!("{{\"response\": {{{uids}, \"answer\": \"Accept\"}}}}\n{rest}");
            assert_eq!(read_reply(two.as_bytes(), None).unwrap().unwrap().answer, expected, "{two}");
        }
    }

    #[test]
    fn a_refusal_or_a_delay_counts_in_a_reply_that_no_parser_reads() {
        let uids = r#""evacuationUid": "e1", "podUid": "p1""#;
        let utf32: Vec<u8> = format!(r#"{{{uids}, "answer": "Refuse"}}"#)
            .chars()
            .flat_map(|c| u32::from(c).to_le_bytes())
            .collect();
        let table: [(Vec<u8>, Answer); 13] = [
            // A warning, and a protection against scripts, before the object.
            (
                format!(
                    "<b>Notice</b>: \"x\" is unset\n{{\"response\": {{{uids}, \"answer\": \"Refuse\"}}}}"
                )
                .into(),
                Answer::Refuse,
            ),
            (format!(")]}}',\n{{\"response\": {{{uids}, \"answer\": \"Refuse\"}}}}").into(), Answer::Refuse),
            (
                format!(r#"reply({{"response": {{{uids}, "answer": "Delay", "delaySeconds": 9}}}});"#).into(),
                Answer::Delay,
            ),
            // A template that a script filled in.
            (
                format!(r#"{{"response": {{{uids}, "answer": "Refuse", "message": "job "x" runs"}}}}"#)
                    .into(),
                Answer::Refuse,
            ),
            (format!(r#"{{"response": {{{uids}, "answer": "Refuse",}}}}"#).into(), Answer::Refuse),
            (
                format!(r#"{{"response": {{{uids}, "answer": "Delay", "delaySeconds": 9, /* soon */}}}}"#)
                    .into(),
                Answer::Delay,
            ),
            // A length that counts characters and not bytes cuts the end.
            (
                format!(r#"{{"response": {{{uids}, "answer": "Refuse", "message": "Sicherung lä"#).into(),
                Answer::Refuse,
            ),
            // Shift JIS, whose second byte is a backslash before the quote.
            (
                [
                    format!(r#"{{"response": {{{uids}, "answer": "Refuse", "message": ""#).as_bytes(),
                    b"\x95\x5c\"}}",
                ]
                .concat(),
                Answer::Refuse,
            ),
            (utf32, Answer::Refuse),
            (
                b"{'response': {'evacuationUid': 'e1', 'podUid': 'p1', 'answer': 'Refuse'}}".to_vec(),
                Answer::Refuse,
            ),
            (
                b"response:\n  evacuationUid: e1\n  podUid: p1\n  answer: Delay\n  delaySeconds: 9\n"
                    .to_vec(),
                Answer::Delay,
            ),
            (b"evacuationUid=e1&podUid=p1&answer=Refuse".to_vec(), Answer::Refuse),
            // Where no answer belongs.
            (
                format!(r#"{{"statusCode": 200, "body": {{{uids}, "answer": "Refuse"}}}}"#).into(),
                Answer::Refuse,
            ),
        ];
        for (body, expected) in table {
            let shown = String::from_utf8_lossy(&body).into_owned();
            let found = read_reply(&body, None).unwrap_or_else(|error| panic!("{shown}: {error}"));
            let found = found.unwrap_or_else(|| panic!("{shown}: no answer"));
            assert_eq!((found.answer, found.evacuation_uid.as_str()), (expected, "e1"), "{shown}");
            assert_eq!(found.delay_seconds, (expected == Answer::Delay).then_some(9), "{shown}");
            assert!(found.message.unwrap().starts_with("its reply says so, and cannot be read"), "{shown}");
        }
        for body in [
            format!(r#"{{"response": {{{uids}, "answer": "Accept",}}}}"#),
            format!(r#"{{"response": {{{uids}, "answer": "Accept", "answer": "No",}}}}"#),
            r#"{"response": {"podUid": "p1", "answer": "Refuse",}}"#.to_owned(),
            format!("{uids} the answer must be Accept, Delay or Refuse"),
        ] {
            assert!(read_reply(body.as_bytes(), None).is_err(), "{body}");
        }
    }

    #[test]
    fn an_answer_without_one_meaning_is_named() {
        let table = [
            (json!({"answer": "Maybe"}), "response.answer is \"Maybe\": it must be Accept, Delay or Refuse"),
            (json!({}), "response.answer is null: it must be Accept, Delay or Refuse"),
            (
                json!({"answer": "Accept", "podUid": 7}),
                "response.podUid is missing: repeat it from the request",
            ),
        ];
        for (given, expected) in table {
            assert_eq!(read(&given).unwrap_err(), expected, "{given}");
        }
        assert_eq!(read_reply(b"{}", None), Ok(None));
        assert_eq!(read_reply(br#"{"response": 7}"#, None).unwrap_err(), "response is 7 and not an object");
    }
}
