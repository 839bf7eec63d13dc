//! Values of the pod annotations that the project reads, as generously as the replies of apps.

use std::{collections::BTreeMap, fmt};

use chrono::TimeDelta;

use crate::{
    DOMAIN, GATE_ASKED_ANNOTATION, GATE_CONDITION_TYPE_ANNOTATION, GATE_MESSAGE_ANNOTATION,
    GATE_OPEN_ANNOTATION, Json, ONE_AT_A_TIME_ANNOTATION, REFRESH_AFTER_ANNOTATION,
    REFRESH_AFTER_RESTARTS_ANNOTATION, REFRESH_ENABLED_ANNOTATION, RELEASED_ANNOTATION,
    REPLACEMENT_TIMEOUT_ANNOTATION, RESPONDERS_ANNOTATION,
    json::{bare, rounded_up},
    names::is_own_domain,
    validation::responder_errors,
};

/// The annotations of pods that the project reads.
pub const POD_ANNOTATIONS: [&str; 11] = [
    RESPONDERS_ANNOTATION,
    REPLACEMENT_TIMEOUT_ANNOTATION,
    ONE_AT_A_TIME_ANNOTATION,
    GATE_OPEN_ANNOTATION,
    GATE_MESSAGE_ANNOTATION,
    GATE_CONDITION_TYPE_ANNOTATION,
    GATE_ASKED_ANNOTATION,
    REFRESH_ENABLED_ANNOTATION,
    REFRESH_AFTER_RESTARTS_ANNOTATION,
    REFRESH_AFTER_ANNOTATION,
    RELEASED_ANNOTATION,
];
/// Maximum duration of an annotation, in seconds: ten years. It can be added to any time.
const MAX_DURATION_SECONDS: i64 = 10 * 365 * 24 * 3600;
/// Maximum number of characters of a value that a message repeats.
const SHOWN: usize = 64;

/// A value that an annotation does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} {problem}")]
pub struct AnnotationValueError {
    value: String,
    problem: &'static str,
}

fn refuse<T>(value: &str, problem: &'static str) -> Result<T, AnnotationValueError> {
    Err(AnnotationValueError { value: value.chars().take(SHOWN).collect(), problem })
}

/// Reads [`REPLACEMENT_TIMEOUT_ANNOTATION`], in seconds.
pub fn parse_replacement_timeout(text: &str) -> Result<i64, AnnotationValueError> {
    match Json::from(text).seconds() {
        Some(seconds) if (1..=MAX_DURATION_SECONDS).contains(&seconds) => Ok(seconds),
        _ => refuse(text, "is not a whole number of seconds, of at least 1"),
    }
}

/// Reads [`ONE_AT_A_TIME_ANNOTATION`].
pub fn parse_one_at_a_time(text: &str) -> Result<bool, AnnotationValueError> {
    true_or_false(text)
}

/// Reads [`GATE_OPEN_ANNOTATION`] that names no Evacuation.
pub fn parse_gate_open(text: &str) -> Result<bool, AnnotationValueError> {
    true_or_false(text)
}

/// Reads a name in an annotation of the gate: that of an Evacuation in [`GATE_OPEN_ANNOTATION`], or of a
/// condition in [`GATE_CONDITION_TYPE_ANNOTATION`]. Blanks and quotes around it do not count.
pub fn parse_gate_name(text: &str) -> &str {
    bare(text)
}

/// Reads [`REFRESH_ENABLED_ANNOTATION`].
pub fn parse_refresh_enabled(text: &str) -> Result<bool, AnnotationValueError> {
    true_or_false(text)
}

/// Reads [`REFRESH_AFTER_RESTARTS_ANNOTATION`].
pub fn parse_refresh_after_restarts(text: &str) -> Result<i32, AnnotationValueError> {
    match Json::from(text).whole_number().and_then(|number| i32::try_from(number).ok()) {
        Some(restarts) if restarts > 0 => Ok(restarts),
        _ => refuse(text, "is not a whole number of at least 1"),
    }
}

/// Reads [`REFRESH_AFTER_ANNOTATION`] and flags of its kind: hours, minutes and seconds, such as `1h30m`. A
/// part of a second counts as a whole one.
pub fn parse_duration(text: &str) -> Result<TimeDelta, AnnotationValueError> {
    let time = duration_seconds(text).filter(|seconds| (1..=MAX_DURATION_SECONDS).contains(seconds));
    match time.and_then(TimeDelta::try_seconds) {
        Some(time) => Ok(time),
        None => refuse(text, "is not a time such as 90s, 10m or 1h30m, of one second to ten years"),
    }
}

fn true_or_false(text: &str) -> Result<bool, AnnotationValueError> {
    Json::from(text).truth().map_or_else(|| refuse(text, "is neither true nor false"), Ok)
}

fn duration_seconds(text: &str) -> Option<i64> {
    let mut seconds = 0.0;
    let mut rest = bare(text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let mut characters = after.chars();
        let unit = match characters.next() {
            Some('h') => 3600.0,
            Some('m') => 60.0,
            Some('s') => 1.0,
            _ => return None,
        };
        rest = characters.as_str();
        seconds += number.parse::<f64>().ok()? * unit;
    }
    Some(rounded_up(seconds))
}

/// A problem with one annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationProblem {
    /// The annotation's key.
    pub annotation: String,
    /// The problem, in words.
    pub problem: String,
}

impl fmt::Display for AnnotationProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "annotation {}: {}", self.annotation, self.problem)
    }
}

/// Returns whether the project owns an annotation of that key.
pub fn is_own_annotation(key: &str) -> bool {
    key.split_once('/').is_some_and(|(domain, _)| is_own_domain(domain))
}

/// Returns every problem with the project's annotations in a pod, a pod template or a manifest of one.
///
/// An unknown annotation of the project's domains is a problem too: a misspelt one protects nothing.
pub fn annotation_problems(annotations: &BTreeMap<String, String>) -> Vec<AnnotationProblem> {
    let own = annotations.iter().filter(|(key, _)| is_own_annotation(key));
    own.flat_map(|(key, value)| {
        problems_of(key, value, annotations)
            .into_iter()
            .map(|problem| AnnotationProblem { annotation: key.clone(), problem })
    })
    .collect()
}

fn problems_of(key: &str, value: &str, all: &BTreeMap<String, String>) -> Vec<String> {
    let one = |error: Option<AnnotationValueError>| error.iter().map(ToString::to_string).collect();
    if !POD_ANNOTATIONS.contains(&key) {
        return vec![format!("is not an annotation of {DOMAIN}")];
    }
    match key {
        RESPONDERS_ANNOTATION => responder_problems(value),
        REPLACEMENT_TIMEOUT_ANNOTATION => one(parse_replacement_timeout(value).err()),
        ONE_AT_A_TIME_ANNOTATION => one(parse_one_at_a_time(value).err()),
        // The name of the Evacuation that asks the pod opens the gate, too.
        GATE_OPEN_ANNOTATION
            if all.get(GATE_ASKED_ANNOTATION).is_some_and(|asked| asked == parse_gate_name(value)) =>
        {
            Vec::new()
        }
        GATE_OPEN_ANNOTATION => one(parse_gate_open(value).err()),
        REFRESH_ENABLED_ANNOTATION => one(parse_refresh_enabled(value).err()),
        REFRESH_AFTER_RESTARTS_ANNOTATION => one(parse_refresh_after_restarts(value).err()),
        REFRESH_AFTER_ANNOTATION => one(parse_duration(value).err()),
        _ => Vec::new(),
    }
}

fn responder_problems(text: &str) -> Vec<String> {
    responder_errors(text)
        .iter()
        .map(|problem| match problem.field.to_string() {
            path if path.is_empty() => problem.message.clone(),
            path => format!("{path}: {}", problem.message),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(annotations: &[(&str, &str)]) -> Vec<String> {
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        annotation_problems(&annotations.collect()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_value_that_an_annotation_does_not_take_is_a_problem() {
        for (key, good, bad, problem) in [
            (
                "surge.evacuation.dev/timeout-seconds",
                "600",
                "ten",
                "\"ten\" is not a whole number of seconds, of at least 1",
            ),
            ("surge.evacuation.dev/one-at-a-time", "true", "1", "\"1\" is neither true nor false"),
            ("gate.evacuation.dev/open", "false", "yes", "\"yes\" is neither true nor false"),
            ("refresh.evacuation.dev/enabled", "true", "no", "\"no\" is neither true nor false"),
            ("refresh.evacuation.dev/after-restarts", "5", "0", "\"0\" is not a whole number of at least 1"),
            (
                "refresh.evacuation.dev/after",
                "10m",
                "10",
                "\"10\" is not a time such as 90s, 10m or 1h30m, of one second to ten years",
            ),
            (
                "evacuation.dev/responders",
                "[]",
                "[",
                "is not JSON: EOF while parsing a list at line 1 column 1",
            ),
            (
                "evacuation.dev/responders",
                r#"[{"name":"surge.evacuation.dev/replacement"}]"#,
                r#"[{"name":"self"},{"name":"surge.evacuation.dev/unknown"}]"#,
                "[1].name: \"surge.evacuation.dev/unknown\" is not a responder of evacuation.dev",
            ),
        ] {
            assert_eq!(problems(&[(key, good)]), Vec::<String>::new(), "{key}");
            assert_eq!(problems(&[(key, bad)]), [format!("annotation {key}: {problem}")]);
        }
    }

    #[test]
    fn a_value_is_read_as_generously_as_a_reply() {
        for (text, seconds, restarts) in [
            ("600", Some(600), Some(600)),
            ("600.0", Some(600), Some(600)),
            ("\"600\"", Some(600), Some(600)),
            (" 600\n", Some(600), Some(600)),
            ("\u{feff}600", Some(600), Some(600)),
            ("6e2", Some(600), Some(600)),
            ("599.5", Some(600), None),
            ("0", None, None),
            ("-600", None, None),
            ("1e300", None, None),
            ("inf", None, None),
            ("nan", None, None),
            ("600s", None, None),
            ("6 00", None, None),
            ("0x258", None, None),
            ("", None, None),
        ] {
            assert_eq!(parse_replacement_timeout(text).ok(), seconds, "{text:?}");
            assert_eq!(parse_refresh_after_restarts(text).ok(), restarts, "{text:?}");
        }
        for (text, truth) in [
            ("true", Some(true)),
            ("True", Some(true)),
            ("\"true\"", Some(true)),
            (" FALSE\n", Some(false)),
            ("\u{feff}false", Some(false)),
            ("yes", None),
            ("1", None),
            ("t", None),
            ("", None),
        ] {
            for parse in [parse_one_at_a_time, parse_refresh_enabled, parse_gate_open] {
                assert_eq!(parse(text).ok(), truth, "{text:?}");
            }
        }
    }

    #[test]
    fn the_name_of_the_evacuation_that_asks_opens_the_gate_without_a_problem() {
        for (asked, open, is_fine) in [
            (Some("e"), "e", true),
            (Some("e"), " \"e\"\n", true),
            (Some("e"), "earlier", false),
            (None, "e", false),
        ] {
            let asked = asked.map(|name| ("gate.evacuation.dev/asked", name));
            let all: Vec<_> = asked.into_iter().chain([("gate.evacuation.dev/open", open)]).collect();
            assert_eq!(problems(&all).is_empty(), is_fine, "{all:?}");
        }
    }

    #[test]
    fn a_name_of_the_gate_is_read_without_blanks_and_quotes() {
        for text in ["acme.io/Saved", " acme.io/Saved\n", "\"acme.io/Saved\"", "\u{feff}acme.io/Saved"] {
            assert_eq!(parse_gate_name(text), "acme.io/Saved", "{text:?}");
        }
    }

    #[test]
    fn a_misspelt_annotation_of_the_projects_domains_is_a_problem_and_others_are_not_looked_at() {
        let unknown =
            problems(&[("surge.evacuation.dev/timeout", "600"), ("evacuation.dev/responder", "[]")]);
        assert_eq!(unknown.len(), 2, "{unknown:?}");
        let others = [("my-evacuation.dev/responders", "["), ("acme.io/open", "yes"), ("open", "yes")];
        assert_eq!(problems(&others), Vec::<String>::new());
    }

    #[test]
    fn every_problem_of_the_responders_is_gathered() {
        let text = r#"[{"name":"self","timeoutSeconds":0,"foo":1},{"name":"db"}]"#;
        assert_eq!(problems(&[("evacuation.dev/responders", text)]).len(), 3);
        let twice = r#"[{"name":"self","timeoutSeconds":60,"timeoutSeconds":90}]"#;
        assert_eq!(
            problems(&[("evacuation.dev/responders", twice)]),
            ["annotation evacuation.dev/responders: [0].timeoutSeconds: is given twice"]
        );
    }

    #[test]
    fn a_duration_is_hours_minutes_and_seconds() {
        for (text, seconds) in [
            ("90s", Some(90)),
            ("10m", Some(600)),
            ("1h30m", Some(5400)),
            ("1h0m1s", Some(3601)),
            ("", None),
            ("0s", None),
            ("10", None),
            ("m", None),
            ("-10m", None),
            ("1.5h", Some(5400)),
            ("30.0s", Some(30)),
            ("0.5s", Some(1)),
            (" 10m\n", Some(600)),
            ("\u{feff}10m", Some(600)),
            ("\"10m\"", Some(600)),
            ("1.5", None),
            (".m", None),
            ("1.2.3m", None),
            ("1e3s", None),
            ("10M", None),
            ("\"10m", None),
            ("10 m", None),
            ("10ms", None),
            ("10d", None),
            ("87601h", None),
            ("99999999999999999999h", None),
            ("9223372036854775807h", None),
            ("ein m", None),
        ] {
            let found = parse_duration(text).ok().map(|time| time.num_seconds());
            assert_eq!(found, seconds, "{text:?}");
        }
    }
}
