use chrono::{DateTime, Datelike, SecondsFormat, TimeDelta, Timelike, Utc};
use proptest::prelude::*;

use super::*;

const HOUR: i64 = 3600;

fn utc(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(text).unwrap().to_utc()
}

fn calendar(schedule: &str, duration_seconds: i64, zone: &str) -> WindowCalendar {
    WindowCalendar::read(&Window {
        schedule: schedule.to_owned(),
        duration_seconds,
        time_zone: Some(zone.to_owned()),
    })
    .unwrap()
}

/// From when on the window is open, asked at each of these times.
fn opens(schedule: &str, seconds: i64, zone: &str, table: &[(&str, &str)]) {
    let calendar = calendar(schedule, seconds, zone);
    for (from, expected) in table {
        let open = calendar.first_open(utc(from)).unwrap();
        assert_eq!(
            open.to_rfc3339_opts(SecondsFormat::AutoSi, true),
            *expected,
            "{schedule} in {zone} from {from}"
        );
    }
}

#[test]
fn a_window_is_open_from_its_opening_until_its_duration_is_over() {
    // Saturdays from 22:00 to midnight.
    let table = [
        ("2026-11-21T21:59:59.999999Z", "2026-11-21T22:00:00Z"),
        ("2026-11-21T22:00:00Z", "2026-11-21T22:00:00Z"),
        ("2026-11-21T22:00:00.250Z", "2026-11-21T22:00:00.250Z"),
        ("2026-11-21T23:59:59.999999Z", "2026-11-21T23:59:59.999999Z"),
        ("2026-11-22T00:00:00Z", "2026-11-28T22:00:00Z"),
        ("2026-11-22T00:00:00.000001Z", "2026-11-28T22:00:00Z"),
    ];
    opens("0 22 * * 6", 2 * HOUR, "UTC", &table);
}

#[test]
fn a_window_without_a_time_zone_is_in_utc() {
    let window = Window { schedule: "0 22 * * 6".to_owned(), duration_seconds: HOUR, time_zone: None };
    let calendar = WindowCalendar::read(&window).unwrap();
    assert_eq!(calendar.first_open(utc("2026-11-20T00:00:00Z")), Some(utc("2026-11-21T22:00:00Z")));
}

#[test]
fn windows_that_overlap_are_always_open() {
    let calendar = calendar("*/10 * * * *", 900, "UTC");
    for second in 0..3600 {
        let from = utc("2026-11-21T00:00:00Z") + TimeDelta::seconds(second);
        assert_eq!(calendar.first_open(from), Some(from));
    }
}

#[test]
fn the_wall_clock_of_the_time_zone_counts_in_winter_and_in_summer() {
    let berlin =
        [("2027-01-09T00:00:00Z", "2027-01-09T21:00:00Z"), ("2027-07-03T00:00:00Z", "2027-07-03T20:00:00Z")];
    opens("0 22 * * 6", HOUR, "Europe/Berlin", &berlin);
    let new_york =
        [("2027-01-09T12:00:00Z", "2027-01-10T03:00:00Z"), ("2027-07-03T12:00:00Z", "2027-07-04T02:00:00Z")];
    opens("0 22 * * 6", HOUR, "America/New_York", &new_york);
}

/// Berlin goes from 02:00 to 03:00 on 2027-03-28 at 01:00 UTC, New York on 2027-03-14 at 07:00 UTC.
#[test]
fn a_start_that_does_not_exist_that_day_is_when_the_clock_has_gone_forward() {
    let berlin = [
        ("2027-03-27T12:00:00Z", "2027-03-28T01:00:00Z"),
        ("2027-03-28T00:59:59Z", "2027-03-28T01:00:00Z"),
        ("2027-03-28T01:30:00Z", "2027-03-28T01:30:00Z"),
        ("2027-03-28T02:00:00Z", "2027-03-29T00:30:00Z"),
    ];
    opens("30 2 * * *", HOUR, "Europe/Berlin", &berlin);
    let new_york = [
        ("2027-03-13T12:00:00Z", "2027-03-14T07:00:00Z"),
        ("2027-03-14T07:59:59Z", "2027-03-14T07:59:59Z"),
        ("2027-03-14T08:00:00Z", "2027-03-15T06:30:00Z"),
    ];
    opens("30 2 * * *", HOUR, "America/New_York", &new_york);
}

/// Berlin goes from 03:00 to 02:00 on 2026-10-25 at 01:00 UTC, New York from 02:00 to 01:00 on 2026-11-01 at
/// 06:00 UTC.
#[test]
fn a_start_that_occurs_twice_is_the_first_of_the_two() {
    let berlin = [
        ("2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
        ("2026-10-25T00:59:59Z", "2026-10-25T00:59:59Z"),
        // The second 02:30 is at 01:30 UTC.
        ("2026-10-25T01:00:00Z", "2026-10-26T01:30:00Z"),
        ("2026-10-25T01:15:00Z", "2026-10-26T01:30:00Z"),
        ("2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"),
        ("2026-10-25T01:45:00Z", "2026-10-26T01:30:00Z"),
    ];
    opens("30 2 * * *", HOUR / 2, "Europe/Berlin", &berlin);
    let new_york = [
        ("2026-10-31T12:00:00Z", "2026-11-01T05:30:00Z"),
        ("2026-11-01T06:00:00Z", "2026-11-02T06:30:00Z"),
        ("2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z"),
    ];
    opens("30 1 * * *", HOUR / 2, "America/New_York", &new_york);
}

#[test]
fn a_window_that_spans_a_change_of_the_clock_is_open_for_its_elapsed_time() {
    // From 01:00 for three hours: to 05:00 by the wall clock in spring, to 03:00 in autumn.
    let berlin = [
        ("2027-03-28T02:59:59Z", "2027-03-28T02:59:59Z"),
        ("2027-03-28T03:00:00Z", "2027-03-28T23:00:00Z"),
        ("2026-10-25T01:59:59Z", "2026-10-25T01:59:59Z"),
        ("2026-10-25T02:00:00Z", "2026-10-26T00:00:00Z"),
    ];
    opens("0 1 * * *", 3 * HOUR, "Europe/Berlin", &berlin);
    let new_york = [
        ("2027-03-14T07:59:59Z", "2027-03-14T07:59:59Z"),
        ("2027-03-14T08:00:00Z", "2027-03-15T04:00:00Z"),
        ("2026-11-01T06:59:59Z", "2026-11-01T06:59:59Z"),
        ("2026-11-01T07:00:00Z", "2026-11-02T05:00:00Z"),
    ];
    opens("0 0 * * *", 3 * HOUR, "America/New_York", &new_york);
}

#[test]
fn a_step_opens_in_both_of_the_repeated_hours_and_not_at_times_that_do_not_exist() {
    let berlin = [
        ("2026-10-25T00:45:00Z", "2026-10-25T01:00:00Z"),
        ("2026-10-25T01:05:00Z", "2026-10-25T01:30:00Z"),
        ("2027-03-28T00:45:00Z", "2027-03-28T01:00:00Z"),
    ];
    opens("*/30 * * * *", 300, "Europe/Berlin", &berlin);
}

#[test]
fn a_leap_day_is_waited_for() {
    let table = [("2026-11-21T00:00:00Z", "2028-02-29T00:00:00Z")];
    opens("0 0 29 2 *", HOUR, "UTC", &table);
}

#[test]
fn a_time_before_which_there_is_no_other_has_no_window() {
    let calendar = calendar("@daily", HOUR, "UTC");
    assert_eq!(calendar.first_open(DateTime::<Utc>::MIN_UTC), None);
    assert_eq!(calendar.first_open(DateTime::<Utc>::MAX_UTC), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_is_too_strange_to_be_refused(schedule in "\\PC{0,40}", zone in "\\PC{0,20}") {
        let _ = WindowCalendar::read(&Window { schedule, duration_seconds: 60, time_zone: Some(zone) });
    }

    #[test]
    fn nothing_that_looks_like_cron_is_too_strange(schedule in "[-0-9*/,?LW#+@ A-Z]{0,30}") {
        let _ = WindowCalendar::read(&Window { schedule, duration_seconds: 60, time_zone: None });
    }

    /// Against a walk minute by minute.
    #[test]
    fn the_first_opening_is_the_one_that_a_walk_finds(
        minute in 0..60_u32,
        hour in 0..24_u32,
        day in 0..7_u32,
        duration in 1..4000_i64,
        from in 0..600_000_i64,
    ) {
        let from = utc("2026-11-21T00:00:00Z") + TimeDelta::seconds(from);
        let duration = TimeDelta::seconds(duration * 60);
        let starts = |time: &DateTime<Utc>| {
            time.minute() == minute
                && time.hour() == hour
                && time.weekday().num_days_from_sunday() == day
        };
        let earliest = from - duration;
        let whole = earliest + TimeDelta::seconds((60 - earliest.timestamp().rem_euclid(60)) % 60);
        let found = (0..20_000)
            .map(|minutes| whole + TimeDelta::minutes(minutes))
            .find(|time| starts(time) && *time > earliest)
            .unwrap();
        let calendar = calendar(&format!("{minute} {hour} * * {day}"), duration.num_seconds(), "UTC");
        prop_assert_eq!(calendar.first_open(from), Some(found.max(from)));
    }

    #[test]
    fn what_is_open_stays_open_when_asked_again(from in 0..40_000_000_i64, minutes in 1..600_i64) {
        let from = utc("2026-11-21T00:00:00Z") + TimeDelta::seconds(from);
        for (schedule, zone) in [("30 2 * * *", "Europe/Berlin"), ("*/20 1-3 * * 0", "America/New_York")] {
            let calendar = calendar(schedule, minutes * 60, zone);
            let open = calendar.first_open(from).unwrap();
            prop_assert!(open >= from);
            prop_assert_eq!(calendar.first_open(open), Some(open));
        }
    }
}
