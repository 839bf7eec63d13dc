//! Durations and timeouts of flags.

use std::time::Duration;

/// A duration as kubectl's flags take it: `10m`, `1h30m`, `90s`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time.is_zero() => Err("must be longer than zero".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(format!("not a duration such as 10m or 1h30m: {error}")),
    }
}

/// Reads a timeout: zero means for ever, as in kubectl.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::MAX),
        _ => match humantime::parse_duration(text) {
            Ok(time) if time.is_zero() => Ok(Duration::MAX),
            _ => duration(text),
        },
    }
}

/// Returns the seconds of a duration, rounded up, so that nothing happens before it has passed.
pub(crate) fn whole_seconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis().div_ceil(1000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_as_kubectl_reads_it_and_a_bad_one_is_explained() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        for bad in ["", "10", "ten minutes", "0s"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_timeout_of_zero_is_for_ever_as_kubectl_has_it() {
        for (text, expected) in [
            ("0", Some(Duration::MAX)),
            ("0s", Some(Duration::MAX)),
            ("90s", Some(Duration::from_secs(90))),
            ("soon", None),
        ] {
            assert_eq!(timeout(text).ok(), expected, "{text}");
        }
    }
}
