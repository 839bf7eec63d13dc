//! Times: the API's own are chrono's with six digits of a second, as Kubernetes' `MicroTime`; conditions carry
//! Kubernetes' `Time`, which is jiff's with whole seconds. The conversions between the two are here and
//! nowhere else.

use std::borrow::Cow;

use chrono::{DateTime, SecondsFormat, Utc};
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
        let text = Cow::<str>::deserialize(deserializer)?;
        let time = DateTime::parse_from_rfc3339(&text).map_err(|e| {
            serde::de::Error::custom(format!("{text:?} is not a time such as 2026-11-20T22:00:00Z: {e}"))
        })?;
        Ok(Self(time.with_timezone(&Utc)))
    }
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

/// The time of a condition: whole seconds, as Kubernetes writes them.
pub fn condition_time(time: DateTime<Utc>) -> Time {
    Time(jiff::Timestamp::from_second(time.timestamp()).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

/// The instant that a Kubernetes time names.
pub fn from_condition_time(time: &Time) -> DateTime<Utc> {
    DateTime::from_timestamp(time.0.as_second(), time.0.subsec_nanosecond().unsigned_abs())
        .unwrap_or_default()
}
