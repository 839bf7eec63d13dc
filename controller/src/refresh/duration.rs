//! Durations as Kubernetes writes them, of at least one whole second: `90s`, `10m`, `1h30m`.

use chrono::TimeDelta;

/// Maximum duration, in seconds: ten years. It can be added to any time.
const LONGEST: i64 = 10 * 365 * 24 * 3600;

/// A text that is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a time such as 90s, 10m or 1h30m, of one second to ten years")]
pub(crate) struct NotADuration;

/// Returns the duration that a text names.
///
/// # Errors
///
/// The text holds anything but whole numbers with the units h, m and s, is zero, or is longer than ten years.
pub(crate) fn parse_duration(text: &str) -> Result<TimeDelta, NotADuration> {
    let mut seconds = 0_i64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or(NotADuration)?;
        let (number, after) = rest.split_at(digits);
        let number: i64 = number.parse().map_err(|_| NotADuration)?;
        let mut characters = after.chars();
        let unit = match characters.next() {
            Some('h') => 3600,
            Some('m') => 60,
            Some('s') => 1,
            _ => return Err(NotADuration),
        };
        rest = characters.as_str();
        seconds = number.checked_mul(unit).and_then(|more| seconds.checked_add(more)).ok_or(NotADuration)?;
    }
    if (1..=LONGEST).contains(&seconds) {
        TimeDelta::try_seconds(seconds).ok_or(NotADuration)
    } else {
        Err(NotADuration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_whole_hours_minutes_and_seconds() {
        for (text, seconds) in [
            ("90s", Some(90)),
            ("10m", Some(600)),
            ("1h30m", Some(5400)),
            ("1h0m1s", Some(3601)),
            ("", None),
            ("0s", None),
            ("10", None),
            ("m", None),
            ("-10m", None),
            ("1.5h", None),
            ("10 m", None),
            ("10ms", None),
            ("10d", None),
            ("87601h", None),
            ("99999999999999999999h", None),
            ("9223372036854775807h", None),
            ("ein m", None),
        ] {
            let found = parse_duration(text).ok().map(|time| time.num_seconds());
            assert_eq!(found, seconds, "{text:?}");
        }
    }
}
