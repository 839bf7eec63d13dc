//! When a requester may start negotiating.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The time zone of a window that names none.
pub const DEFAULT_TIME_ZONE: &str = "UTC";

/// A window that opens again and again, in the words of a CronJob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// When it opens, in the five fields of cron: minute, hour, day of month, month, day of week; or `@hourly`, `@daily`,
    /// `@weekly`, `@monthly`, `@yearly`.
    pub schedule: String,
    /// How long it is open each time, in elapsed seconds: a minute to seven days.
    pub duration_seconds: i64,
    /// The time zone of the schedule, by its name in the IANA database, such as `Europe/Berlin`; UTC by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}
