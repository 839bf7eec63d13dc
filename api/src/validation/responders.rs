//! Validation of registrations, and decoding of the annotation.

use std::fmt;

use machinery_validation::{FieldError, FieldErrorKind, FieldPath};
use serde_json::{Map, Value};

use super::{
    endpoints::{read_http, read_service, validate_http, validate_service},
    text::{Errors, MAX_DELAY_SECONDS},
};
use crate::{DOMAIN, ResponderEntry, SELF_RESPONDER, is_unknown_built_in};

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
/// Returns the entries as they were written; [`ResponderEntry`] resolves their defaults.
pub fn parse_responders(text: &str) -> Result<Vec<ResponderEntry>, ResponderParseError> {
    let problem = |kind, message: String| ResponderParseError {
        problems: vec![FieldError { kind, field: FieldPath::default(), message }],
    };
    if text.len() > MAX_RESPONDERS_BYTES {
        return Err(problem(
            FieldErrorKind::TooLong,
            format!("must have at most {MAX_RESPONDERS_BYTES} bytes"),
        ));
    }
    let items = match serde_json::from_str(text) {
        Ok(Value::Array(items)) => items,
        Ok(_) => {
            return Err(problem(FieldErrorKind::TypeInvalid, "must be a JSON list".to_owned()));
        }
        Err(error) => return Err(problem(FieldErrorKind::Invalid, format!("is not JSON: {error}"))),
    };
    if items.len() > MAX_RESPONDERS {
        return Err(problem(
            FieldErrorKind::TooMany,
            format!("must have at most {MAX_RESPONDERS} items, has {}", items.len()),
        ));
    }
    let mut errors = Errors::default();
    let mut entries = Vec::with_capacity(items.len());
    for (i, item) in items.into_iter().enumerate() {
        let path = FieldPath::default().index(i);
        if let Some(entry) = read_entry(&mut errors, &path, item) {
            check_distinct(&mut errors, &path, &entries, &entry);
            validate_entry(&mut errors, &path, &entry);
            entries.push(entry);
        }
    }
    if errors.0.is_empty() { Ok(entries) } else { Err(ResponderParseError { problems: errors.0 }) }
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

/// Decodes one entry field by field, so that every problem is found and not only the first. `None` when it is
/// no object or has no name.
fn read_entry(errors: &mut Errors, path: &FieldPath, item: Value) -> Option<ResponderEntry> {
    let mut fields = object(errors, path, item)?;
    let name = required::<String>(errors, path, &mut fields, "name", "a string");
    let mut entry = ResponderEntry {
        priority: take(errors, path, &mut fields, "priority", "a whole number of 32 bits"),
        timeout_seconds: take(errors, path, &mut fields, "timeoutSeconds", "a whole number"),
        max_delay_seconds: take(errors, path, &mut fields, "maxDelaySeconds", "a whole number"),
        serves_until_termination: take(errors, path, &mut fields, "servesUntilTermination", "true or false")
            .unwrap_or_default(),
        ..ResponderEntry::named("")
    };
    if let Some(value) = take::<Value>(errors, path, &mut fields, "http", "an object") {
        entry.http = read_http(errors, &path.child("http"), value);
    }
    if let Some(value) = take::<Value>(errors, path, &mut fields, "service", "an object") {
        entry.service = read_service(errors, &path.child("service"), value);
    }
    refuse_rest(errors, path, fields);
    name.map(|name| ResponderEntry { name, ..entry })
}

pub(super) fn object(errors: &mut Errors, path: &FieldPath, value: Value) -> Option<Map<String, Value>> {
    let Value::Object(fields) = value else {
        errors.add(FieldErrorKind::TypeInvalid, path.clone(), "must be an object");
        return None;
    };
    Some(fields)
}

pub(super) fn required<T: serde::de::DeserializeOwned>(
    errors: &mut Errors,
    path: &FieldPath,
    fields: &mut Map<String, Value>,
    field: &str,
    expected: &str,
) -> Option<T> {
    if fields.get(field).is_none_or(Value::is_null) {
        errors.add(FieldErrorKind::Required, path.child(field), "is required");
        fields.remove(field);
        return None;
    }
    take(errors, path, fields, field, expected)
}

/// Takes one field. A null counts as absent, as in Kubernetes.
pub(super) fn take<T: serde::de::DeserializeOwned>(
    errors: &mut Errors,
    path: &FieldPath,
    fields: &mut Map<String, Value>,
    field: &str,
    expected: &str,
) -> Option<T> {
    let value = fields.remove(field).filter(|value| !value.is_null())?;
    let taken = serde_json::from_value(value).ok();
    if taken.is_none() {
        errors.add(FieldErrorKind::TypeInvalid, path.child(field), format!("must be {expected}"));
    }
    taken
}

pub(super) fn refuse_rest(errors: &mut Errors, path: &FieldPath, fields: Map<String, Value>) {
    for (name, _) in fields {
        errors.add(FieldErrorKind::Forbidden, path.child(&name), "unknown field");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DEFAULT_MAX_DELAY_SECONDS, DEFAULT_PRIORITY, DEFAULT_TIMEOUT_SECONDS};

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
            (r#"[{"name":"self","timeoutSeconds":"1m"}]"#, "[0].timeoutSeconds: must be a whole number"),
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
