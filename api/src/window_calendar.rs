//! The calendar of a window: the times at which it is open.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use chrono_tz::Tz;
use croner::{
    Cron, YEAR_UPPER_LIMIT,
    parser::{CronParser, Seconds, Year},
};

use crate::{DEFAULT_TIME_ZONE, Window};

/// Schedule, time zone and duration of a window, parsed.
///
/// # Daylight saving
///
/// A duration is elapsed time: changes of the wall clock do not matter. A schedule of one hour and one minute
/// opens once a day. If that time does not exist, it opens at the moment at which the clock goes forward. If
/// it occurs twice, it opens at the first of the two. A schedule of several hours or minutes is a list, a
/// range, a step or `*`. It opens at each time that matches, those of the repeated hour too, and not at times
/// that do not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowCalendar {
    schedule: Cron,
    zone: Tz,
    duration: TimeDelta,
}

/// Problem of a window's schedule or time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// The schedule is not one of cron.
    #[error("{schedule:?} is not a schedule of five fields, such as \"0 22 * * 6\": {problem}")]
    Schedule {
        /// The schedule.
        schedule: String,
        /// The parser's message.
        problem: String,
    },
    /// The schedule names a time zone, which has a field of its own.
    #[error("{schedule:?} names a time zone: that belongs in timeZone")]
    ZoneInSchedule {
        /// The schedule.
        schedule: String,
    },
    /// No day of the calendar fits the schedule.
    #[error("{schedule:?} names a day that never comes")]
    Never {
        /// The schedule.
        schedule: String,
    },
    /// The IANA database has no such time zone.
    #[error("{zone:?} is not a time zone, such as Europe/Berlin")]
    Zone {
        /// The name.
        zone: String,
    },
}

impl WindowCalendar {
    /// Parses a window.
    ///
    /// # Errors
    ///
    /// The schedule or the time zone cannot be parsed, or the schedule never comes. Durations are not checked
    /// here: one that is not positive opens, for no time at all.
    pub fn read(window: &Window) -> Result<Self, WindowError> {
        Ok(Self {
            schedule: read_schedule(&window.schedule)?,
            zone: read_zone(window.time_zone.as_deref())?,
            duration: TimeDelta::try_seconds(window.duration_seconds.max(1)).unwrap_or(TimeDelta::MAX),
        })
    }

    /// Returns the first time at which the window is open, at `from` or after it: `from` itself, if it is
    /// open then. A window is open from its opening until its duration is over. `None` when it never opens
    /// again.
    pub fn first_open(&self, from: DateTime<Utc>) -> Option<DateTime<Utc>> {
        // The first opening that is not over by `from`, be it before or after.
        let since = from.checked_sub_signed(self.duration)?;
        let opening = self.schedule.find_next_occurrence(&since.with_timezone(&self.zone), false).ok()?;
        Some(opening.to_utc().max(from))
    }
}

/// Parses a schedule of five fields, or one of cron's names.
pub(crate) fn read_schedule(schedule: &str) -> Result<Cron, WindowError> {
    let schedule = || schedule.to_owned();
    let text = schedule();
    if text.contains('=') {
        return Err(WindowError::ZoneInSchedule { schedule: text });
    }
    // croner ignores an empty item of a list. A field of no other items never matches, and the search for it
    // would look at each minute of centuries.
    if text.split_whitespace().any(|field| field.split(',').any(str::is_empty)) {
        let problem = "a list has an empty item".to_owned();
        return Err(WindowError::Schedule { schedule: text, problem });
    }
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    let cron = parser
        .parse(&text)
        .map_err(|error| WindowError::Schedule { schedule: schedule(), problem: error.to_string() })?;
    // On the calendar itself, without a time zone. It repeats after 400 years; croner searches to the year
    // 5000, which from an earlier start takes longer and shows no more.
    let comes = NaiveDate::from_ymd_opt(YEAR_UPPER_LIMIT - 410, 1, 1)
        .and_then(|day| day.and_hms_opt(0, 0, 0))
        .is_some_and(|start| cron.find_next_occurrence(&start, true).is_ok());
    if comes { Ok(cron) } else { Err(WindowError::Never { schedule: text }) }
}

/// Parses the name of a time zone.
pub(crate) fn read_zone(zone: Option<&str>) -> Result<Tz, WindowError> {
    let name = zone.unwrap_or(DEFAULT_TIME_ZONE);
    name.parse().map_err(|_| WindowError::Zone { zone: name.to_owned() })
}

#[cfg(test)]
mod tests;
