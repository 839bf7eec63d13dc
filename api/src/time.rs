//! Times, and every conversion between chrono's and Kubernetes' (jiff's).
//!
//! The server's times have six digits of a second, as Kubernetes' `MicroTime`. Times that users write have
//! whole seconds, as Kubernetes' `Time`: a Go client with `metav1.Time` keeps no more. Conditions carry
//! `Time` itself.

use std::borrow::Cow;

use chrono::{DateTime, SecondsFormat, SubsecRound, TimeDelta, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant in UTC; written as RFC 3339 with microseconds, read as any RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub DateTime<Utc>);

impl From<DateTime<Utc>> for Timestamp {
    fn from(time: DateTime<Utc>) -> Self {
        Self(time)
    }
}

impl From<Timestamp> for DateTime<Utc> {
    fn from(time: Timestamp) -> Self {
        time.0
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::Micros, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer).map(Self)
    }
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DateTime<Utc>, D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    let time = DateTime::parse_from_rfc3339(&text).map_err(|error| {
        serde::de::Error::custom(format!("{text:?} is not a time such as 2026-11-20T22:00:00Z: {error}"))
    })?;
    Ok(time.with_timezone(&Utc))
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "MicroTime".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

/// An instant in UTC of whole seconds; written and read as RFC 3339. Fractions of a second are rounded up, so
/// that nothing happens before the time that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WholeSecond(DateTime<Utc>);

impl WholeSecond {
    /// Returns the instant.
    pub fn time(self) -> DateTime<Utc> {
        self.0
    }
}

impl From<DateTime<Utc>> for WholeSecond {
    fn from(time: DateTime<Utc>) -> Self {
        let whole = time.trunc_subsecs(0);
        let next = whole.checked_add_signed(TimeDelta::seconds(1)).unwrap_or(whole);
        Self(if whole < time { next } else { whole })
    }
}

impl From<WholeSecond> for Timestamp {
    fn from(time: WholeSecond) -> Self {
        Self(time.0)
    }
}

impl std::fmt::Display for WholeSecond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.to_rfc3339_opts(SecondsFormat::Secs, true))
    }
}

impl Serialize for WholeSecond {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WholeSecond {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer).map(Self::from)
    }
}

impl JsonSchema for WholeSecond {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

/// Returns the time of a condition: whole seconds, as Kubernetes writes them.
pub fn condition_time(time: DateTime<Utc>) -> Time {
    Time(jiff::Timestamp::from_second(time.timestamp()).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

/// Returns the instant of a Kubernetes time.
pub fn from_condition_time(time: &Time) -> DateTime<Utc> {
    DateTime::from_timestamp(time.0.as_second(), time.0.subsec_nanosecond().unsigned_abs())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_writes_as_a_time_comes_back_in_whole_seconds_and_never_sooner() {
        for (written, stored) in [
            ("2099-01-01T00:00:00Z", "2099-01-01T00:00:00Z"),
            ("2099-01-01T00:00:00.000000Z", "2099-01-01T00:00:00Z"),
            ("2026-11-20T22:00:00.000001Z", "2026-11-20T22:00:01Z"),
            ("2026-11-20T23:00:00+01:00", "2026-11-20T22:00:00Z"),
            ("9999-01-01T00:00:00.5Z", "9999-01-01T00:00:01Z"),
            ("1969-12-31T23:59:58.9Z", "1969-12-31T23:59:59Z"),
        ] {
            let time: WholeSecond = serde_json::from_value(written.into()).unwrap();
            assert_eq!(serde_json::to_value(time).unwrap(), stored, "{written}");
        }
        assert_eq!(
            WholeSecond::from(DateTime::<Utc>::MAX_UTC).time(),
            DateTime::<Utc>::MAX_UTC.trunc_subsecs(0)
        );
    }
}
