//! Times in words: each beside its distance from now. Pure.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use evacuation_api::Timestamp;

/// Length of a time such as `2026-11-20T22:05:00Z` in a text.
const STAMP: usize = 20;

/// Statement for what does not move while no controller works. The cause is the API server's warning.
pub(crate) const WAITS: &str = "waits for a controller";

/// The time of a look at the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// The time.
    pub(crate) time: DateTime<Utc>,
    /// False while no controller works: then nothing happens by itself.
    pub(crate) led: bool,
}

impl Now {
    /// Returns the present, while a controller works or not.
    pub(crate) fn of(led: bool) -> Self {
        Self { time: Utc::now(), led }
    }

    /// Returns a time and its distance: `22:05:42Z (in 42 s)`, `22:05:42Z (18 min ago)`.
    pub(crate) fn at(&self, time: DateTime<Utc>) -> String {
        // Sub-seconds are rounded up: 0 s would mean that it is over.
        let rest = time - self.time + TimeDelta::milliseconds(999);
        let clock = self.clock(time);
        if rest.num_seconds() > 0 {
            format!("{clock} (in {})", span(rest))
        } else {
            format!("{clock} ({} ago)", span(self.time - time))
        }
    }

    /// Returns the time since which something lasts: `22:05:42Z (18 min)`.
    pub(crate) fn since(&self, time: DateTime<Utc>) -> String {
        format!("{} ({})", self.clock(time), span(self.time - time))
    }

    /// Returns [`Self::at`] of a recorded time.
    pub(crate) fn stamp(&self, time: &Timestamp) -> String {
        self.at(time.0)
    }

    /// Puts its distance beside each time of a text.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut told = String::new();
        let mut rest = text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let (before, from) = rest.split_at(start);
            told.push_str(before);
            let stamp = from.get(..STAMP).filter(|stamp| stamp.ends_with('Z'));
            let time = stamp.and_then(|stamp| stamp.parse::<DateTime<Utc>>().ok());
            let taken = if let Some(time) = time {
                told.push_str(&self.at(time));
                STAMP
            } else {
                let digits = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
                told.push_str(from.get(..digits).unwrap_or_default());
                digits
            };
            rest = from.get(taken..).unwrap_or_default();
        }
        told + rest
    }

    /// Returns the time of day, or the date, too, when it is more than a day away.
    fn clock(&self, time: DateTime<Utc>) -> String {
        if (time - self.time).num_hours().abs() < 24 {
            time.format("%H:%M:%SZ").to_string()
        } else {
            time.to_rfc3339_opts(SecondsFormat::Secs, true)
        }
    }
}

/// Returns a duration in its largest unit of which there are two: `90 s`, `5 min`, `3 h`, `2 d`.
pub(crate) fn span(duration: TimeDelta) -> String {
    let seconds = duration.num_seconds().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Returns a number and its noun: `1 pod`, `2 pods`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Now {
        Now { time: "2026-11-20T22:05:00Z".parse().unwrap(), led: true }
    }

    #[test]
    fn a_time_has_its_distance_beside_it() {
        for (time, expected) in [
            ("2026-11-20T22:05:42Z", "22:05:42Z (in 42 s)"),
            ("2026-11-20T22:05:00.2Z", "22:05:00Z (in 1 s)"),
            ("2026-11-20T22:05:00Z", "22:05:00Z (0 s ago)"),
            ("2026-11-20T21:47:00Z", "21:47:00Z (18 min ago)"),
            ("2026-11-21T02:05:00Z", "02:05:00Z (in 4 h)"),
            ("2026-11-23T22:05:00Z", "2026-11-23T22:05:00Z (in 3 d)"),
        ] {
            assert_eq!(now().at(time.parse().unwrap()), expected);
        }
        assert_eq!(now().since("2026-11-20T21:47:00Z".parse().unwrap()), "21:47:00Z (18 min)");
    }

    #[test]
    fn each_time_in_a_text_has_its_distance_beside_it() {
        for (text, expected) in [
            ("until 2026-11-20T22:05:04Z: 39 s left", "until 22:05:04Z (in 4 s): 39 s left"),
            ("2026-11-20T22:04:00Z, 2026-11-20T22:06:00Z", "22:04:00Z (60 s ago), 22:06:00Z (in 60 s)"),
            ("10 of 2026-11-20 ü 2026-99-20T22:05:04Z", "10 of 2026-11-20 ü 2026-99-20T22:05:04Z"),
            ("", ""),
        ] {
            assert_eq!(now().text(text), expected);
        }
    }

    #[test]
    fn one_is_singular() {
        assert_eq!([0, 1, 2].map(|number| count(number, "pod")), ["0 pods", "1 pod", "2 pods"]);
    }
}
