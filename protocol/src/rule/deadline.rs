//! The deadline of a marked node, read from its notice.

use chrono::{DateTime, NaiveDateTime, SecondsFormat, Utc};
use evacuation_api::{NodeEvacuation, NoticeDeadline, NoticeTime, from_condition_time};
use k8s_openapi::api::core::v1::Node;

use crate::time::{after, sooner};

/// Difference, in seconds, at which an open drain's deadline is changed. The server stamps the creation later
/// than the controller decides.
const TOLERANCE: i64 = 2;
/// Maximum of `deadlineSeconds`.
const LONGEST: i64 = i32::MAX as i64;

/// Seconds after the mark up to which a notice's time is believed: one in milliseconds lies beyond.
const FARTHEST: i64 = 90 * 86_400;

/// The deadline of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Deadline {
    /// Time at which the remaining pods are evicted.
    pub(super) time: Option<DateTime<Utc>>,
    /// The reason for which the notice could not be read.
    pub(super) problem: Option<String>,
    /// True when the rule's default stands in for the notice's time.
    pub(super) is_default: bool,
}

/// Returns the deadline of a node whose mark appeared at `since`.
pub(super) fn deadline(wanted: Option<&NoticeDeadline>, node: &Node, since: DateTime<Utc>) -> Deadline {
    let Some(wanted) = wanted else { return Deadline::default() };
    let counted = wanted.after_seconds.map(|seconds| after(since, seconds));
    let (read, problem) = match wanted.from.as_ref().map(|from| read(from, node)) {
        None => (None, None),
        Some(Ok(time)) if time < since => (None, Some(stale(time, "before its mark appeared"))),
        Some(Ok(time)) if time > after(since, FARTHEST) => {
            (None, Some(stale(time, "more than 90 days after its mark appeared")))
        }
        Some(Ok(time)) => (Some(time), None),
        Some(Err(problem)) => (None, Some(problem)),
    };
    let default = wanted.default_seconds.filter(|_| problem.is_some()).map(|seconds| after(since, seconds));
    let reserve = wanted.reserve_seconds.unwrap_or_default();
    let time = sooner(read.or(default), counted).map(|time| after(time, -reserve));
    Deadline { time, problem, is_default: default.is_some() }
}

fn stale(time: DateTime<Utc>, why: &str) -> String {
    format!(
        "the notice's time {} is {why}, and does not count",
        time.to_rfc3339_opts(SecondsFormat::Secs, true)
    )
}

/// Returns the seconds from a drain's start to its deadline.
pub(super) fn seconds_from(start: DateTime<Utc>, deadline: DateTime<Utc>) -> i64 {
    (deadline - start).num_seconds().clamp(0, LONGEST)
}

/// Returns the deadline of an open drain.
pub(super) fn deadline_of(drain: &NodeEvacuation) -> Option<DateTime<Utc>> {
    let start = from_condition_time(drain.metadata.creation_timestamp.as_ref()?);
    drain.spec.requester.deadline_seconds.map(|seconds| after(start, seconds))
}

/// Returns the `deadlineSeconds` that an open drain must get for its deadline. `None` when it has it.
pub(super) fn change(drain: &NodeEvacuation, deadline: Option<DateTime<Utc>>) -> Option<i64> {
    let start = from_condition_time(drain.metadata.creation_timestamp.as_ref()?);
    let wanted = seconds_from(start, deadline?);
    let known = drain.spec.requester.deadline_seconds;
    known.is_none_or(|known| (known - wanted).abs() > TOLERANCE).then_some(wanted)
}

/// Reads the time of a notice.
fn read(from: &NoticeTime, node: &Node) -> Result<DateTime<Utc>, String> {
    let metadata = &node.metadata;
    let (place, value) = match from {
        NoticeTime { annotation: Some(key), .. } => {
            (format!("annotation {key}"), metadata.annotations.as_ref().and_then(|all| all.get(key)))
        }
        NoticeTime { label: Some(key), .. } => {
            (format!("label {key}"), metadata.labels.as_ref().and_then(|all| all.get(key)))
        }
        NoticeTime { taint, .. } => {
            let key = taint.clone().unwrap_or_default();
            let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
            (format!("taint {key}"), taints.find(|taint| taint.key == key).and_then(|t| t.value.as_ref()))
        }
    };
    let value = value.ok_or_else(|| format!("the node has no {place} with the time of the notice"))?;
    parse(value).ok_or_else(|| {
        let shown: String = value.chars().take(64).collect();
        let zone = if has_no_zone(bare(value)) { " with a time zone" } else { "" };
        format!("{place}: {shown:?} is no time{zone} such as 2026-11-20T22:00:00Z, and no seconds since 1970")
    })
}

/// Formats of a time with its zone besides RFC 3339, RFC 2822 and RFC 9110: ISO 8601 as Python and Java write
/// it, also in the basic form, which labels allow, and the texts of times in Go and Ruby.
const WITH_ZONE: [&str; 7] = [
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%dT%H:%M%#z",
    "%Y%m%dT%H%M%S%#z",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f %z",
    "%Y-%m-%d %H:%M:%S%.f %z %Z",
    "%a %b %e %H:%M:%S %z %Y",
];
/// Formats of a time in UTC, as date(1), Go and Ruby write it. `UTC` is read as `GMT`.
const IN_UTC: [&str; 3] =
    ["%a %b %e %H:%M:%S GMT %Y", "%a %b %e %I:%M:%S %p GMT %Y", "%Y-%m-%d %H:%M:%S%.f GMT"];
/// Formats without a zone.
const WITHOUT_ZONE: [&str; 2] = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"];
/// From this number on, seconds since 1970 are milliseconds, and so on by thousands: in seconds it is the
/// year 5138, in milliseconds 1973.
const MILLISECONDS: f64 = 1e11;

/// Returns the time of a text, or of a number of seconds or of a fraction of a second since 1970.
pub(crate) fn parse(value: &str) -> Option<DateTime<Utc>> {
    let value = bare(value);
    // RFC 2822 and RFC 9110 know no other name for it. Go writes this one.
    let in_gmt = value.replace("UTC", "GMT");
    let known = DateTime::parse_from_rfc3339(value).or_else(|_| DateTime::parse_from_rfc2822(&in_gmt)).ok();
    let of_zone = || WITH_ZONE.iter().find_map(|format| DateTime::parse_from_str(value, format).ok());
    let utc = || IN_UTC.iter().find_map(|format| NaiveDateTime::parse_from_str(&in_gmt, format).ok());
    // RFC 9110 has two obsolete dates. That of asctime is in UTC, though it does not say so.
    let http = || httpdate::parse_http_date(&in_gmt).ok().map(DateTime::<Utc>::from);
    let time = known.or_else(of_zone).map(|time| time.to_utc()).or_else(http);
    time.or_else(|| utc().map(|time| time.and_utc())).or_else(|| since_1970(value))
}

/// Returns a time without what programs leave around it: blanks and quotes, the name of Java's zone, and Go's
/// reading of its other clock.
fn bare(value: &str) -> &str {
    let value = value.trim_matches(|c: char| c.is_whitespace() || c == '"' || c == '\'');
    let value = value.split_once(" m=").map_or(value, |(time, _)| time);
    value.strip_suffix(']').and_then(|value| value.split_once('[')).map_or(value, |(time, _)| time)
}

fn since_1970(value: &str) -> Option<DateTime<Utc>> {
    let number: f64 = value.parse().ok().filter(|number: &f64| number.is_finite())?;
    let units = [1.0, 1e3, 1e6, 1e9];
    let seconds = units.map(|unit| number / unit).into_iter().find(|seconds| seconds.abs() < MILLISECONDS)?;
    // Exact to a millisecond, which is more than anybody waits for.
    #[allow(clippy::cast_possible_truncation, reason = "it is below 1e14")]
    let milliseconds = (seconds * 1e3).round() as i64;
    DateTime::from_timestamp_millis(milliseconds)
}

fn has_no_zone(value: &str) -> bool {
    WITHOUT_ZONE.iter().any(|format| NaiveDateTime::parse_from_str(value, format).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;
    use serde_json::json;

    #[test]
    fn a_time_is_read_in_the_forms_that_programs_write() {
        for (text, time) in [
            ("2024-10-04T00:01:00Z", Some(at(60))),
            ("2024-10-04T02:01:00+02:00", Some(at(60))),
            ("1728000060", Some(at(60))),
            (" 1728000060 ", Some(at(60))),
            ("1728000060.0", Some(at(60))),
            ("1728000060000", Some(at(60))),
            ("1728000060000000", Some(at(60))),
            ("1728000060000000000", Some(at(60))),
            ("2024-10-04T00:01:00+0000", Some(at(60))),
            ("2024-10-04T02:01:00.000+0200", Some(at(60))),
            ("2024-10-04 00:01:00Z", Some(at(60))),
            ("2024-10-04 02:01:00 +0200", Some(at(60))),
            ("2024-10-04 00:01:00 +0000 UTC", Some(at(60))),
            ("Fri, 04 Oct 2024 00:01:00 GMT", Some(at(60))),
            ("Fri, 4 Oct 2024 02:01:00 +0200", Some(at(60))),
            ("Friday, 04-Oct-24 00:01:00 GMT", Some(at(60))),
            ("Fri Oct  4 00:01:00 UTC 2024", Some(at(60))),
            ("Fri Oct  4 00:01:00 2024", Some(at(60))),
            (" Fri Oct  4 00:01:00 2024\n", Some(at(60))),
            ("Fri Oct 04 00:01:00 2024", Some(at(60))),
            ("Fri, 04 Oct 2024 00:01:00 UTC", Some(at(60))),
            ("Friday, 04-Oct-24 00:01:00 UTC", Some(at(60))),
            ("Fri Oct  4 00:01:00 +0000 2024", Some(at(60))),
            ("Fri Oct  4 12:01:00 AM UTC 2024", Some(at(60))),
            ("2024-10-04 00:01:00 UTC", Some(at(60))),
            (
                "2024-10-04 02:01:00.5 +0200 CEST m=+0.000012",
                DateTime::from_timestamp_millis(1_728_000_060_500),
            ),
            ("2024-10-04T00:01Z", Some(at(60))),
            ("20241004T000100Z", Some(at(60))),
            ("2024-10-04T02:01:00+02:00[Europe/Berlin]", Some(at(60))),
            ("2024-10-04T00:01:00Z[UTC]", Some(at(60))),
            ("\"2024-10-04T00:01:00Z\"\n", Some(at(60))),
            ("'1728000060'", Some(at(60))),
            ("2024-10-04t00:01:00z", Some(at(60))),
            ("Sun Nov  6 08:49:37 1994", DateTime::from_timestamp(784_111_777, 0)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", DateTime::from_timestamp(784_111_777, 0)),
            ("Sun Oct  4 00:01:00 2024", None),
            ("Fri Oct  4 24:01:00 2024", None),
            ("Fri Oct  4 00:01:00 CEST 2024", None),
            ("Fri Feb 30 00:01:00 2024", None),
            ("2024-10-04T00:01:00", None),
            ("2024-10-04T00:01:00[Europe/Berlin]", None),
            ("2024-10-04 00:01:00 CEST", None),
            ("04.10.2024 00:01:00 UTC", None),
            ("10/04/2024 00:01:00 UTC", None),
            ("2024-10-04", None),
            ("nan", None),
            ("soon", None),
            ("", None),
            ("1e30", None),
        ] {
            assert_eq!(parse(text), time, "{text:?}");
        }
    }

    #[test]
    fn the_earlier_of_the_notices_time_and_the_counted_one_counts_less_the_reserve() {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"annotations": {"at": "2024-10-04T00:02:00Z", "bad": "soon", "old": "2024-10-04T00:00:09Z", "milliseconds": "1728000060000", "local": "2024-10-04T00:02:00", "far": "4000000000"}, "labels": {"l": "1728000030"}},
            "spec": {"taints": [{"key": "t", "value": "1728000040", "effect": "NoSchedule"}]},
        }))
        .unwrap();
        let table = [
            (json!({"from": {"annotation": "at"}}), Some(at(120)), None),
            (json!({"from": {"label": "l"}}), Some(at(30)), None),
            (json!({"from": {"taint": "t"}}), Some(at(40)), None),
            (json!({"from": {"annotation": "at"}, "reserveSeconds": 20}), Some(at(100)), None),
            (json!({"from": {"annotation": "at"}, "afterSeconds": 60}), Some(at(70)), None),
            (
                json!({"from": {"annotation": "bad"}, "afterSeconds": 60}),
                Some(at(70)),
                Some("annotation bad: \"soon\" is no time"),
            ),
            (json!({"from": {"annotation": "none"}}), None, Some("the node has no annotation none")),
            (json!({"from": {"annotation": "at"}, "defaultSeconds": 5}), Some(at(120)), None),
            (
                json!({"from": {"annotation": "bad"}, "defaultSeconds": 300}),
                Some(at(310)),
                Some("annotation bad: \"soon\" is no time"),
            ),
            (
                json!({"from": {"annotation": "local"}, "defaultSeconds": 300, "reserveSeconds": 20}),
                Some(at(290)),
                Some("annotation local: \"2024-10-04T00:02:00\" is no time with a time zone such as"),
            ),
            (
                json!({"from": {"annotation": "none"}, "defaultSeconds": 300, "afterSeconds": 60}),
                Some(at(70)),
                Some("the node has no annotation none"),
            ),
            (
                json!({"from": {"annotation": "old"}, "defaultSeconds": 300}),
                Some(at(310)),
                Some("the notice's time 2024-10-04T00:00:09Z is before"),
            ),
            (
                json!({"from": {"annotation": "old"}}),
                None,
                Some("the notice's time 2024-10-04T00:00:09Z is before"),
            ),
            (
                json!({"from": {"annotation": "far"}, "afterSeconds": 60}),
                Some(at(70)),
                Some("the notice's time 2096"),
            ),
            (json!({"from": {"annotation": "milliseconds"}}), Some(at(60)), None),
            (
                json!({"from": {"annotation": "local"}}),
                None,
                Some("annotation local: \"2024-10-04T00:02:00\" is no time with a time zone such as"),
            ),
        ];
        for (wanted, time, problem) in table {
            let wanted: NoticeDeadline = serde_json::from_value(wanted).unwrap();
            let found = deadline(Some(&wanted), &node, at(10));
            assert_eq!(found.time, time, "{wanted:?}");
            assert_eq!(found.problem.is_some(), problem.is_some(), "{found:?}");
            assert!(found.problem.unwrap_or_default().starts_with(problem.unwrap_or_default()));
        }
        assert_eq!(deadline(None, &node, at(10)), Deadline::default());
    }

    #[test]
    fn an_open_drain_gets_another_deadline_only_when_the_notice_changed() {
        let drain = |seconds: Option<i64>| -> NodeEvacuation {
            serde_json::from_value(json!({
                "metadata": {"creationTimestamp": "2024-10-04T00:00:10Z"},
                "spec": {"nodes": {}, "requester": {"deadlineSeconds": seconds}},
            }))
            .unwrap()
        };
        assert_eq!(change(&drain(Some(50)), Some(at(60))), None);
        assert_eq!(change(&drain(Some(52)), Some(at(60))), None, "stamped later than decided");
        assert_eq!(change(&drain(Some(50)), Some(at(30))), Some(20));
        assert_eq!(change(&drain(Some(50)), Some(at(0))), Some(0), "the time is over");
        assert_eq!(change(&drain(None), Some(at(60))), Some(50));
        assert_eq!(change(&drain(Some(50)), None), None, "a notice that cannot be read changes nothing");
    }
}
