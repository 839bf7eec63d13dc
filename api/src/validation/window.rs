//! Validation of a requester's window.

use machinery_validation::{FieldErrorKind, FieldPath};

use super::text::Errors;
use crate::{
    Window,
    window_calendar::{read_schedule, read_zone},
};

/// Minimum duration of a window, in seconds: the grain of cron.
pub const MIN_WINDOW_SECONDS: i64 = 60;
/// Maximum duration of a window, in seconds: seven days.
pub const MAX_WINDOW_SECONDS: i64 = 7 * 24 * 3600;
/// Maximum length of a schedule, in bytes.
pub const MAX_SCHEDULE_LENGTH: usize = 256;

/// Checks a window, each of its fields.
pub(super) fn validate_window(errors: &mut Errors, path: &FieldPath, window: &Window) {
    let schedule = path.child("schedule");
    if window.schedule.trim().is_empty() {
        errors.add(FieldErrorKind::Required, schedule, "is required");
    } else if window.schedule.len() > MAX_SCHEDULE_LENGTH {
        errors.add(
            FieldErrorKind::TooLong,
            schedule,
            format!("must have at most {MAX_SCHEDULE_LENGTH} bytes"),
        );
    } else if let Err(error) = read_schedule(&window.schedule) {
        errors.invalid(schedule, error.to_string());
    }
    errors.within(
        path.child("durationSeconds"),
        Some(window.duration_seconds),
        MIN_WINDOW_SECONDS,
        MAX_WINDOW_SECONDS,
    );
    if let Err(error) = read_zone(window.time_zone.as_deref()) {
        errors.invalid(path.child("timeZone"), error.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(schedule: &str, seconds: i64, zone: Option<&str>) -> Vec<String> {
        let window = Window {
            schedule: schedule.to_owned(),
            duration_seconds: seconds,
            time_zone: zone.map(str::to_owned),
        };
        let mut errors = Errors::default();
        validate_window(&mut errors, &FieldPath::new("window"), &window);
        errors.0.iter().map(|e| format!("{:?} {}: {}", e.kind, e.field, e.message)).collect()
    }

    #[test]
    fn a_schedule_has_the_five_fields_of_a_cron_job_or_a_name() {
        for good in [
            "0 22 * * 6",
            "*/15 1-5 * JAN,MAR MON-FRI",
            "0 2 * * SUN",
            "30 3 1 */3 ?",
            "0 22 * * 6#1",
            "0 0 29 2 *",
            "@daily",
            "@Weekly",
            "@hourly",
            "@monthly",
            "@yearly",
        ] {
            assert_eq!(problems(good, 3600, None), [] as [String; 0], "{good}");
        }
        for (bad, said) in [
            ("", "Required window.schedule"),
            ("  ", "Required window.schedule"),
            ("soon", "is not a schedule of five fields"),
            ("0 22 * *", "is not a schedule of five fields"),
            ("0 0 22 * * 6", "is not a schedule of five fields"),
            ("0 0 22 * * 6 2027", "is not a schedule of five fields"),
            ("60 22 * * 6", "is not a schedule of five fields"),
            ("0 24 * * 6", "is not a schedule of five fields"),
            ("0 22 * * 8", "is not a schedule of five fields"),
            ("0 22 ** * 6", "is not a schedule of five fields"),
            (", * * * *", "is not a schedule of five fields"),
            ("0,,30 * * * *", "a list has an empty item"),
            ("@reboot", "is not a schedule of five fields"),
            ("@every 1h", "is not a schedule of five fields"),
            ("0 22 * * \u{e4}", "is not a schedule of five fields"),
            ("TZ=Europe/Berlin 0 22 * * 6", "belongs in timeZone"),
            ("CRON_TZ=UTC 0 22 * * 6", "belongs in timeZone"),
        ] {
            let found = problems(bad, 3600, None);
            assert!(found.len() == 1 && found[0].contains(said), "{bad}: {found:?}");
            assert!(found[0].contains("window.schedule"), "{found:?}");
        }
        let long = format!("0 {} * * *", "1,".repeat(200) + "1");
        assert!(problems(&long, 3600, None)[0].starts_with("TooLong window.schedule"));
    }

    #[test]
    fn a_cron_that_never_fires_is_refused() {
        for never in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 31 2 ?"] {
            let found = problems(never, 3600, None);
            assert!(
                found.len() == 1 && found[0].contains("names a day that never comes"),
                "{never}: {found:?}"
            );
        }
    }

    #[test]
    fn a_window_is_open_for_a_minute_to_seven_days() {
        for (seconds, good) in [
            (60, true),
            (604_800, true),
            (59, false),
            (604_801, false),
            (0, false),
            (-60, false),
            (i64::MIN, false),
            (i64::MAX, false),
        ] {
            let found = problems("@daily", seconds, None);
            assert_eq!(found.is_empty(), good, "{seconds} {found:?}");
            assert!(found.iter().all(|e| e.starts_with("Invalid window.durationSeconds")));
        }
    }

    #[test]
    fn a_time_zone_is_one_of_the_iana_database() {
        for good in ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Etc/GMT+5"] {
            assert_eq!(problems("@daily", 3600, Some(good)), [] as [String; 0], "{good}");
        }
        for bad in ["Mars/Base", "", "Local", "+02:00", "europe/berlin"] {
            let found = problems("@daily", 3600, Some(bad));
            assert!(found.len() == 1 && found[0].contains("window.timeZone"), "{bad}: {found:?}");
        }
    }

    #[test]
    fn every_error_of_a_window_is_gathered() {
        let found = problems("x", 1, Some("y"));
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
