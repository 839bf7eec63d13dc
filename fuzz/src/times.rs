//! Times that users write.

use std::{collections::BTreeMap, str::from_utf8};

use chrono::{TimeDelta, TimeZone, Utc};
use evacuation_api::{Window, WindowCalendar, annotation_problems, parse_duration};
use evacuation_protocol::fuzzing;

use crate::halves;

/// The key of a pod's annotation below the project's domain, a line break, and the value.
pub(crate) fn pod_annotations(input: &[u8]) {
    let (Ok(key), Ok(value)) = (from_utf8(halves(input).0), from_utf8(halves(input).1)) else { return };
    let keys = [key.to_owned(), format!("{key}.evacuation.dev/{value}"), format!("evacuation.dev/{key}")];
    let annotations: BTreeMap<String, String> = keys.into_iter().map(|key| (key, value.to_owned())).collect();
    for problem in annotation_problems(&annotations) {
        assert!(problem.to_string().len() <= 4 * input.len() + 1024, "{problem}");
    }
    if let Ok(time) = parse_duration(value) {
        assert!(time > TimeDelta::zero(), "{value:?}");
    }
}

pub(crate) fn notice_time(input: &[u8]) {
    from_utf8(input).map(fuzzing::notice_time).unwrap_or_default();
}

/// The schedule of a window, a line break, and the time zone. A window that was read opens, and is open then.
pub(crate) fn window(input: &[u8]) {
    let (Ok(schedule), Ok(zone)) = (from_utf8(halves(input).0), from_utf8(halves(input).1)) else { return };
    let window = Window {
        schedule: schedule.to_owned(),
        duration_seconds: 3600,
        time_zone: (!zone.is_empty()).then(|| zone.to_owned()),
    };
    let Ok(calendar) = WindowCalendar::read(&window) else { return };
    let Some(now) = Utc.with_ymd_and_hms(2026, 11, 20, 22, 0, 0).single() else { return };
    let Some(open) = calendar.first_open(now) else { return };
    assert!(open >= now, "{window:?}");
    assert_eq!(calendar.first_open(open), Some(open), "{window:?} is open when it opens");
}
