//! The table of rows.

use evacuation_api::CallerRow;
use k8s_openapi::api::core::v1::Pod;

use super::{built_in::built_in, caller_match::is_row_of};
use crate::call::Call;

/// The rows in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    rows: Vec<CallerRow>,
    /// The row of calls that no other row matches.
    last: CallerRow,
}

impl Table {
    /// Returns a table of these rows before the built-in ones.
    pub(crate) fn new(first: Vec<CallerRow>) -> Self {
        let rows = first.into_iter().chain(built_in()).collect();
        Self { rows, last: CallerRow::named("unknown") }
    }

    /// Returns the row of that name. A row of the file comes before a built-in one.
    pub(crate) fn named(&self, name: &str) -> Option<&CallerRow> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// Returns the row of a call for a pod.
    pub(crate) fn row(&self, call: &Call, pod: &Pod) -> &CallerRow {
        self.rows.iter().find(|row| is_row_of(row, call, pod)).unwrap_or(&self.last)
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use evacuation_api::DEFAULT_TIMEOUT_SECONDS;

    use super::*;

    /// Maximum number of repetitions of a request, `rest/request.go`, client-go v0.37.1.
    const REPETITIONS: u32 = 10;

    /// Returns the times of the tries of a caller, in seconds from its first, by a clock that is off by
    /// `skew`.
    fn tries(row: &CallerRow, skew: i64) -> Vec<u32> {
        let mut times = vec![0];
        for _ in 0..REPETITIONS {
            let now = times.last().copied().unwrap();
            times.push(now + row.retry_after(TimeDelta::seconds(i64::from(now) + skew)));
        }
        times
    }

    #[test]
    fn ten_tries_of_a_deletion_last_longer_than_a_silent_app_and_the_second_comes_at_once() {
        let table = Table::new(Vec::new());
        let row = table.named("deletion").unwrap();
        assert_eq!(tries(row, 0), [0, 1, 3, 7, 15, 25, 35, 45, 55, 65, 75]);
        for skew in [-1, 0, 1, 60] {
            let last = tries(row, skew).last().copied().unwrap();
            // The controller records the silence, and the gateway sees the record, within seconds.
            assert!(i64::from(last) >= DEFAULT_TIMEOUT_SECONDS + 5, "{skew} s: {last} s");
        }
    }

    #[test]
    fn a_row_without_a_maximum_keeps_its_header() {
        for (first, max, age, expected) in
            [(0, 0, 100, 0), (0, 10, 100, 0), (5, 0, 100, 5), (5, 3, 100, 5), (5, 8, 2, 7), (5, 8, -9, 5)]
        {
            let row = CallerRow {
                retry_after_seconds: first,
                max_retry_after_seconds: max,
                ..CallerRow::named("other")
            };
            assert_eq!(row.retry_after(TimeDelta::seconds(age)), expected, "{first} {max} {age}");
        }
    }
}
