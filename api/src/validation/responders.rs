//! Validation of registrations, and decoding of the annotation.

use std::fmt;

use machinery_validation::{FieldError, FieldErrorKind, FieldPath};

use super::{
    endpoints::{read_http, read_service, validate_http, validate_service},
    object_reader::{ObjectReader, Problems},
    text::{Errors, MAX_DELAY_SECONDS},
};
use crate::{DOMAIN, Json, ResponderEntry, SELF_RESPONDER, is_unknown_built_in};

/// Maximum number of responders of one pod.
pub const MAX_RESPONDERS: usize = 16;
/// Maximum size of the annotation, in bytes: the limit of Kubernetes for all annotations of an object
/// together.
pub const MAX_RESPONDERS_BYTES: usize = 256 * 1024;

/// Maximum priority.
const MAX_PRIORITY: i64 = 1_000_000;
/// Maximum timeout, in seconds: a day.
const MAX_TIMEOUT_SECONDS: i64 = 24 * 3600;

/// Problems of an annotation's text, each with its path inside the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponderParseError {
    /// The problems; at least one.
    pub problems: Vec<FieldError>,
}

impl fmt::Display for ResponderParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let path = problem.field.to_string();
            let (separator, colon) =
                (if i == 0 { "" } else { "; " }, if path.is_empty() { "" } else { ": " });
            write!(f, "{separator}{path}{colon}{}", problem.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for ResponderParseError {}

/// Decodes the text of the annotation [`RESPONDERS_ANNOTATION`](crate::RESPONDERS_ANNOTATION).
///
/// It is read as generously as the reply of an app. Of a number that is given twice the larger one counts,
/// and of a truth value false.
///
/// Returns the entries as they were written; [`ResponderEntry`] resolves their defaults.
///
/// # Errors
///
/// Names every problem for which the annotation counts as one silent responder.
pub fn parse_responders(text: &str) -> Result<Vec<ResponderEntry>, ResponderParseError> {
    let mut problems = Problems::default();
    let entries = read_entries(&mut problems, text);
    let problems = problems.errors.0;
    if problems.is_empty() { Ok(entries) } else { Err(ResponderParseError { problems }) }
}

/// Returns every problem of the annotation's text, also those for which it can still be read.
pub(crate) fn responder_errors(text: &str) -> Vec<FieldError> {
    let mut problems = Problems::default();
    read_entries(&mut problems, text);
    problems.errors.0.into_iter().chain(problems.repeated.0).collect()
}

fn read_entries(problems: &mut Problems, text: &str) -> Vec<ResponderEntry> {
    let errors = &mut problems.errors;
    let whole = FieldPath::default();
    if text.len() > MAX_RESPONDERS_BYTES {
        let message = format!("must have at most {MAX_RESPONDERS_BYTES} bytes");
        errors.add(FieldErrorKind::TooLong, whole, message);
        return Vec::new();
    }
    let items = match Json::read(text) {
        Ok(Json::List(items)) => items,
        Ok(_) => {
            errors.add(FieldErrorKind::TypeInvalid, whole, "must be a JSON list");
            return Vec::new();
        }
        Err(error) => {
            errors.invalid(whole, format!("is not JSON: {error}"));
            return Vec::new();
        }
    };
    if items.len() > MAX_RESPONDERS {
        let message = format!("must have at most {MAX_RESPONDERS} items, has {}", items.len());
        errors.add(FieldErrorKind::TooMany, whole, message);
        return Vec::new();
    }
    let mut entries = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let path = whole.index(i);
        if let Some(entry) = read_entry(problems, &path, item) {
            check_distinct(&mut problems.errors, &path, &entries, &entry);
            validate_entry(&mut problems.errors, &path, &entry);
            entries.push(entry);
        }
    }
    entries
}

/// Returns every problem of a list of entries.
pub fn validate_responders(path: &FieldPath, entries: &[ResponderEntry]) -> Vec<FieldError> {
    let mut errors = Errors::default();
    if entries.len() > MAX_RESPONDERS {
        let message = format!("must have at most {MAX_RESPONDERS} items, has {}", entries.len());
        errors.add(FieldErrorKind::TooMany, path.clone(), message);
    }
    for (i, entry) in entries.iter().enumerate() {
        check_distinct(&mut errors, &path.index(i), entries.get(..i).unwrap_or_default(), entry);
        validate_entry(&mut errors, &path.index(i), entry);
    }
    errors.0
}

fn check_distinct(errors: &mut Errors, path: &FieldPath, before: &[ResponderEntry], entry: &ResponderEntry) {
    if !entry.name.is_empty() && before.iter().any(|other| other.name == entry.name) {
        errors.add(FieldErrorKind::Duplicate, path.child("name"), format!("{:?} occurs twice", entry.name));
    }
}

pub(super) fn validate_entry(errors: &mut Errors, path: &FieldPath, entry: &ResponderEntry) {
    if entry.name != SELF_RESPONDER {
        errors.qualified_name(path.child("name"), &entry.name);
    }
    if is_unknown_built_in(&entry.name) {
        errors.invalid(path.child("name"), format!("{:?} is not a responder of {DOMAIN}", entry.name));
    }
    errors.within(path.child("priority"), entry.priority.map(i64::from), 0, MAX_PRIORITY);
    errors.within(path.child("timeoutSeconds"), entry.timeout_seconds, 1, MAX_TIMEOUT_SECONDS);
    errors.within(path.child("maxDelaySeconds"), entry.max_delay_seconds, 0, MAX_DELAY_SECONDS);
    if let Some(http) = &entry.http {
        validate_http(errors, &path.child("http"), http);
    }
    if let Some(service) = &entry.service {
        validate_service(errors, &path.child("service"), service);
    }
    if entry.http.is_some() && entry.service.is_some() {
        errors.add(FieldErrorKind::Forbidden, path.child("service"), "may not be given together with http");
    }
}

/// Decodes one entry. `None` when it is no object or has no name.
fn read_entry(problems: &mut Problems, path: &FieldPath, item: &Json) -> Option<ResponderEntry> {
    let mut fields = ObjectReader::new(problems, path, item)?;
    let name = fields.required("name", ObjectReader::text);
    let entry = ResponderEntry {
        priority: fields.whole_number("priority", "a whole number of 32 bits"),
        timeout_seconds: fields.seconds("timeoutSeconds"),
        max_delay_seconds: fields.seconds("maxDelaySeconds"),
        serves_until_termination: fields.truth("servesUntilTermination").unwrap_or_default(),
        http: fields.object("http", read_http).unwrap_or_default(),
        service: fields.object("service", read_service).unwrap_or_default(),
        ..ResponderEntry::named("")
    };
    fields.refuse_rest();
    let name = name?;
    let is_self = name.eq_ignore_ascii_case(SELF_RESPONDER);
    Some(ResponderEntry { name: if is_self { SELF_RESPONDER.to_owned() } else { name }, ..entry })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    use crate::{
        CaBundle, DEFAULT_MAX_DELAY_SECONDS, DEFAULT_PRIORITY, DEFAULT_TIMEOUT_SECONDS, HttpEndpoint,
    };

    fn problems(text: &str) -> String {
        parse_responders(text).unwrap_err().to_string()
    }

    #[test]
    fn the_examples_of_the_design_are_read() {
        let entries = parse_responders(
            r#"[{"name":"self","http":{"port":8080,"path":"/evacuation"},"timeoutSeconds":120},
                {"name":"db.acme.io/failover","priority":20000}]"#,
        )
        .unwrap();
        assert_eq!(entries[0].http.as_ref().map(|h| (h.port, h.path())), Some((8080, "/evacuation")));
        assert_eq!(entries[0].timeout_seconds(), 120);
        assert_eq!(entries[1].priority(), 20_000);
        assert_eq!(parse_responders("[]").unwrap(), []);
    }

    #[test]
    fn defaults_are_resolved_and_null_counts_as_absent() {
        let entries = parse_responders(r#"[{"name":"self","priority":null,"http":null}]"#).unwrap();
        assert_eq!(entries, [ResponderEntry::named("self")]);
        assert_eq!(entries[0].priority(), DEFAULT_PRIORITY);
        assert_eq!(entries[0].timeout_seconds(), DEFAULT_TIMEOUT_SECONDS);
        assert_eq!(entries[0].max_delay_seconds(), DEFAULT_MAX_DELAY_SECONDS);
        let endpoint =
            parse_responders(r#"[{"name":"self","http":{"port":1}}]"#).unwrap().remove(0).http.unwrap();
        assert_eq!(endpoint.path(), "/evacuation");
    }

    #[test]
    fn a_misspelt_name_of_the_projects_domain_is_rejected_and_other_domains_are_free() {
        let text = |name: &str| format!(r#"[{{"name":"{name}"}}]"#);
        for good in
            ["surge.evacuation.dev/replacement", "gate.evacuation.dev/condition", "my-evacuation.dev/x"]
        {
            assert!(parse_responders(&text(good)).is_ok(), "{good}");
        }
        for bad in ["surge.evacuation.dev/unknown", "evacuation.dev/x", "gate.evacuation.dev/replacement"] {
            let said = problems(&text(bad));
            assert_eq!(said, format!("[0].name: {bad:?} is not a responder of evacuation.dev"));
            let entry = ResponderEntry::named(bad);
            assert_eq!(validate_responders(&FieldPath::default(), &[entry]).len(), 1, "{bad}");
        }
    }

    #[test]
    fn each_problem_is_named_with_its_path() {
        let table = [
            ("", "is not JSON: EOF while parsing a value at line 1 column 0"),
            (r#"{"name":"self"}"#, "must be a JSON list"),
            ("[1]", "[0]: must be an object"),
            ("[{}]", "[0].name: is required"),
            (r#"[{"name":7}]"#, "[0].name: must be a string"),
            (r#"[{"name":""}]"#, "[0].name: is required"),
            (r#"[{"name":"self"},{"name":"self"}]"#, r#"[1].name: "self" occurs twice"#),
            (r#"[{"name":"self","foo":1}]"#, "[0].foo: unknown field"),
            (r#"[{"name":"self","priority":-1}]"#, "[0].priority: -1 is not between 0 and 1000000"),
            (r#"[{"name":"self","priority":1.5}]"#, "[0].priority: must be a whole number of 32 bits"),
            (r#"[{"name":"self","timeoutSeconds":0}]"#, "[0].timeoutSeconds: 0 is not between 1 and 86400"),
            (
                r#"[{"name":"self","timeoutSeconds":86401}]"#,
                "[0].timeoutSeconds: 86401 is not between 1 and 86400",
            ),
            (r#"[{"name":"self","timeoutSeconds":"1m"}]"#, "[0].timeoutSeconds: must be a number of seconds"),
            (
                r#"[{"name":"self","maxDelaySeconds":-1}]"#,
                "[0].maxDelaySeconds: -1 is not between 0 and 2592000",
            ),
            (r#"[{"name":"self","http":8080}]"#, "[0].http: must be an object"),
            (
                r#"[{"name":"self","http":{"port":1},"service":{"name":"s","port":1}}]"#,
                "[0].service: may not be given together with http",
            ),
            (r#"[{"name":"self","service":1}]"#, "[0].service: must be an object"),
            (
                r#"[{"name":"self","service":{"https":{}}}]"#,
                "[0].service.name: is required; [0].service.port: is required; [0].service.https.caBundle: is required",
            ),
            (
                r#"[{"name":"self","service":{"name":"db.other","port":0,"path":"x"}}]"#,
                "[0].service.name: \"db.other\" is not the name of a Service of the pod's namespace, such as failover; \
                 [0].service.port: 0 is not between 1 and 65535; [0].service.path: \"x\" does not start with one slash",
            ),
            (
                r#"[{"name":"self","service":{"name":"s","port":1,"https":{"caBundle":"no base64!"}}}]"#,
                "[0].service.https.caBundle: must be certificates in PEM, in base64",
            ),
            (
                r#"[{"name":"self","service":{"name":"s","port":1,"https":{"caBundle":"aGVsbG8="}}}]"#,
                "[0].service.https.caBundle: holds no certificate in PEM",
            ),
            (
                r#"[{"name":"self","service":{"name":"s","port":1,"namespace":"x"}}]"#,
                "[0].service.namespace: unknown field",
            ),
            (r#"[{"name":"self","http":{}}]"#, "[0].http.port: is required"),
            (r#"[{"name":"self","http":{"port":0}}]"#, "[0].http.port: 0 is not between 1 and 65535"),
            (
                r#"[{"name":"self","http":{"port":65536}}]"#,
                "[0].http.port: must be a whole number between 1 and 65535",
            ),
            (r#"[{"name":"self","http":{"port":1,"host":"x"}}]"#, "[0].http.host: unknown field"),
            (
                r#"[{"name":"self","http":{"port":1,"path":"e"}}]"#,
                r#"[0].http.path: "e" does not start with one slash"#,
            ),
            (
                r#"[{"name":"self","http":{"port":1,"path":"//evil.example"}}]"#,
                r#"[0].http.path: "//evil.example" does not start with one slash"#,
            ),
            (
                r#"[{"name":"self","http":{"port":1,"path":"/a b"}}]"#,
                "[0].http.path: must be made of visible ASCII characters, without # and \\",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(problems(text), expected, "{text}");
        }
    }

    #[test]
    fn an_annotation_is_read_as_generously_as_a_reply() {
        let expected = [ResponderEntry {
            timeout_seconds: Some(30),
            http: Some(HttpEndpoint { port: 8080, path: None, allow_host_network: None }),
            serves_until_termination: true,
            ..ResponderEntry::named("self")
        }];
        let plain =
            r#"[{"name":"self","timeoutSeconds":30,"servesUntilTermination":true,"http":{"port":8080}}]"#;
        for text in [
            plain.to_owned(),
            // Numbers.
            plain.replace(":30", ":30.0"),
            plain.replace(":30", ":29.1"),
            plain.replace(":30", ":3e1"),
            plain.replace(":30", ":\"30\""),
            plain.replace(":30", ":\" 30.0 \""),
            plain.replace(":8080", ":8080.0").replace(":30", ":\"\\t30\""),
            plain.replace(":8080", ":\"8080\""),
            // Words.
            plain.replace(":true", ":\"true\""),
            plain.replace(":true", ":\"True\""),
            plain.replace(":true", ":\" TRUE\\n\""),
            plain.replace("\"self\"", "\"Self\""),
            plain.replace("\"self\"", "\" self \""),
            // Names of fields.
            plain.replace("timeoutSeconds", "TimeoutSeconds"),
            plain.replace("timeoutSeconds", "timeout_seconds"),
            plain.replace("timeoutSeconds", "timeout-seconds"),
            plain.replace("timeoutSeconds", "TIMEOUT_SECONDS"),
            plain.replace("servesUntilTermination", "serves_until_termination").replace("port", "Port"),
            plain.replace("name", "NAME").replace("http", "HTTP"),
            // Bytes around and inside.
            format!("\u{feff}{plain}"),
            format!("\r\n\t {plain} \n"),
            format!("\u{a0}{plain}\u{a0}"),
            format!("\u{feff} {plain}\u{feff}"),
            plain.replace("self", "\\self").replace(',', ",\n"),
            serde_json::Value::from(plain).to_string(),
            // Fields without a value, and twice with one value.
            plain.replace("{\"name", "{\"timeout_seconds\":null,\"name"),
            plain.replace("{\"name", "{\"Name\":\"self\",\"name"),
        ] {
            assert_eq!(parse_responders(&text).as_deref(), Ok(expected.as_slice()), "{text}");
        }
    }

    #[test]
    fn what_has_more_than_one_meaning_is_no_registration() {
        for (text, problem) in [
            (r#"[{"name":"self"}] [{"name":"self"}]"#, "is not JSON: trailing characters"),
            (r#"[{"name":"self"},]"#, "is not JSON: trailing comma"),
            ("[{'name':'self'}]", "is not JSON: key must be a string"),
            (r#""\"[]\"""#, "must be a JSON list"),
            (r#"[{"name":"self","timeout":30}]"#, "[0].timeout: unknown field"),
            (r#"[{"name":"self","timeoutSecond":null}]"#, "[0].timeoutSecond: unknown field"),
            (
                r#"[{"name":"self","timeoutSeconds":"30s"}]"#,
                "[0].timeoutSeconds: must be a number of seconds",
            ),
            (r#"[{"name":"self","timeoutSeconds":true}]"#, "[0].timeoutSeconds: must be a number of seconds"),
            (r#"[{"name":"self","timeoutSeconds":[30]}]"#, "[0].timeoutSeconds: must be a number of seconds"),
            (
                r#"[{"name":"self","timeoutSeconds":30,"timeout_seconds":"x"}]"#,
                "[0].timeoutSeconds: must be a number of seconds",
            ),
            (
                r#"[{"name":"self","servesUntilTermination":1}]"#,
                "[0].servesUntilTermination: must be true or false",
            ),
            (
                r#"[{"name":"self","servesUntilTermination":"yes"}]"#,
                "[0].servesUntilTermination: must be true or false",
            ),
            (r#"[{"name":"self","priority":"1.5"}]"#, "[0].priority: must be a whole number of 32 bits"),
            (r#"[{"name":"self","priority":3000000000}]"#, "[0].priority: must be a whole number of 32 bits"),
            (r#"[{"name":"self","name":"db.acme.io/x"}]"#, "[0].name: is given twice, with different values"),
            (
                r#"[{"name":"self","http":{"port":1,"Port":2}}]"#,
                "[0].http.port: is given twice, with different values",
            ),
            (
                r#"[{"name":"self","http":{"port":1},"http":{"port":2}}]"#,
                "[0].http: is given twice, with different values",
            ),
            (r#"[{"name":"self"},{"name":"SELF"}]"#, r#"[1].name: "self" occurs twice"#),
        ] {
            let found = problems(text);
            assert!(found.starts_with(problem), "{text}: {found}");
        }
    }

    #[test]
    fn a_field_that_is_given_twice_is_reported_and_its_more_careful_value_counts() {
        let read = |fields: &str| {
            let text = format!(r#"[{{"name":"self",{fields}}}]"#);
            let reported: Vec<_> = responder_errors(&text)
                .iter()
                .map(|problem| format!("{}: {}", problem.field, problem.message))
                .collect();
            let entry = parse_responders(&text).unwrap().remove(0);
            let numbers = (entry.priority, entry.timeout_seconds, entry.max_delay_seconds);
            (numbers, entry.serves_until_termination, reported.join("; "))
        };
        for (fields, numbers, serves, reported) in [
            (r#""priority":1,"priority":2"#, (Some(2), None, None), false, "[0].priority: is given twice"),
            (
                r#""timeoutSeconds":90,"timeout_seconds":"30""#,
                (None, Some(90), None),
                false,
                "[0].timeoutSeconds: is given twice",
            ),
            (
                r#""maxDelaySeconds":0,"maxDelaySeconds":600.0,"MaxDelaySeconds":60"#,
                (None, None, Some(600)),
                false,
                "[0].maxDelaySeconds: is given twice",
            ),
            (
                r#""servesUntilTermination":true,"servesUntilTermination":"false""#,
                (None, None, None),
                false,
                "[0].servesUntilTermination: is given twice",
            ),
            (
                r#""servesUntilTermination":true,"servesUntilTermination":true"#,
                (None, None, None),
                true,
                "[0].servesUntilTermination: is given twice",
            ),
            (r#""timeoutSeconds":90,"timeout_seconds":null"#, (None, Some(90), None), false, ""),
        ] {
            assert_eq!(read(fields), (numbers, serves, reported.to_owned()), "{fields}");
        }
    }

    #[test]
    fn a_bundle_that_was_folded_is_read() {
        let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let text = serde_json::to_value(CaBundle(pem.into())).unwrap();
        let (first, rest) = text.as_str().unwrap().split_at(20);
        for folded in [format!("{first}\n{rest}"), format!("{first} {rest}\n"), format!(" {first}{rest}")] {
            let https = json!({"caBundle": folded});
            let service = json!({"name": "s", "port": "443", "https": https});
            let written = json!([{"name": "self", "service": service}]).to_string();
            let entry = parse_responders(&written).unwrap().remove(0);
            let read = entry.service.and_then(|service| service.https).map(|https| https.ca_bundle);
            assert_eq!(read, Some(CaBundle(pem.into())), "{folded:?}");
        }
    }

    #[test]
    fn every_problem_of_every_entry_is_gathered() {
        let text =
            r#"[7, {"name":"x","priority":-1,"foo":true}, {"timeoutSeconds":0,"http":{"port":"a","q":1}}]"#;
        assert_eq!(
            problems(text),
            "[0]: must be an object; [1].foo: unknown field; \
             [1].name: \"x\" is not of the form DOMAIN/NAME, such as drain.example.com/node-a; \
             [1].priority: -1 is not between 0 and 1000000; [2].name: is required; \
             [2].http.port: must be a whole number between 1 and 65535; [2].http.q: unknown field"
        );
    }

    #[test]
    fn the_list_is_bounded() {
        let list = |n: usize| format!("[{}]", vec!["{}"; n].join(","));
        assert_eq!(parse_responders(&list(17)).unwrap_err().problems[0].kind, FieldErrorKind::TooMany);
        assert_eq!(parse_responders(&list(16)).unwrap_err().problems[0].kind, FieldErrorKind::Required);
        let long = format!("[{}]", " ".repeat(MAX_RESPONDERS_BYTES));
        assert_eq!(parse_responders(&long).unwrap_err().problems[0].kind, FieldErrorKind::TooLong);
    }
}
