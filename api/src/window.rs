//! Time window in which a requester starts negotiating.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Time zone of a window that names none.
pub const DEFAULT_TIME_ZONE: &str = "UTC";

/// A time window that opens again and again, in the words of a CronJob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Opening times in the five fields of cron: minute, hour, day of month, month, day of week; or
    /// `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
    pub schedule: String,
    /// Duration of each opening, in elapsed seconds: a minute to seven days.
    pub duration_seconds: i64,
    /// Time zone of the schedule, by its name in the IANA database, such as `Europe/Berlin`; UTC by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}
