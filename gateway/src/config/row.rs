//! One row of the table: the callers that it matches, and the treatment of their calls.

use chrono::TimeDelta;
use evacuation_api::{DeadlineAction, GATEWAY_ENTRY_PREFIX, RefusalPolicy};
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};

use super::{built_in::built_in, caller_match::CallerMatch};
use crate::call::Call;

/// Time after the last call at which an entry expires, unless the row says otherwise.
const DEFAULT_PATIENCE_SECONDS: u32 = 60;
/// Time in which a refusal is answered from its record, unless the row says otherwise.
const DEFAULT_ASK_AGAIN_AFTER_SECONDS: u32 = 300;
/// Time in which a budget may hold a counted deletion back, unless the row says otherwise.
const DEFAULT_BLOCKED_PATIENCE_SECONDS: u32 = 1800;

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    /// Name of the row, and the end of the name of its entries.
    pub(crate) name: String,
    /// The calls of the row: those that match any of these. None matches every call.
    #[serde(default)]
    pub(crate) matches: Vec<CallerMatch>,
    /// Treatment of the calls; `Ask` by default.
    #[serde(default)]
    pub(crate) act: RowAct,
    /// Reaction to a refusal; `Wait` by default.
    #[serde(default)]
    pub(crate) on_refusal: RefusalPolicy,
    /// Time from a call to the deadline of its entry.
    #[serde(default = "default_patience")]
    pub(crate) patience_seconds: u32,
    /// Action at the deadline: `GiveUp` by default, or `Evict`. With `GiveUp` each retry moves the deadline.
    #[serde(default = "give_up")]
    pub(crate) at_deadline: DeadlineAction,
    /// Time after a refusal in which further calls are answered from its record.
    #[serde(default = "default_ask_again_after")]
    pub(crate) ask_again_after_seconds: u32,
    /// True when an entry leaves once the pod's controller no longer wants the deletion.
    #[serde(default)]
    pub(crate) follows_owner: bool,
    /// Source of the grace period of the eviction.
    #[serde(default)]
    pub(crate) grace_period: GraceSource,
    /// Seconds of the header Retry-After. 0 sends no header, and the caller's own loop decides.
    #[serde(default)]
    pub(crate) retry_after_seconds: u32,
    /// Maximum of the header Retry-After, which grows with the age of the caller's entry. 0 keeps it fixed.
    #[serde(default)]
    pub(crate) max_retry_after_seconds: u32,
    /// True when deletions count against budgets in namespaces that opt in.
    #[serde(default)]
    pub(crate) count_deletions: bool,
    /// Time in which a budget may hold a counted deletion back. The deletion then passes.
    #[serde(default = "default_blocked_patience")]
    pub(crate) blocked_patience_seconds: u32,
}

/// Treatment of the calls of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RowAct {
    /// The pod is asked.
    #[default]
    Ask,
    /// The call passes.
    Pass,
}

/// Source of the grace period of the eviction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GraceSource {
    /// The pod's own.
    #[default]
    Pod,
    /// The caller's, if it gave one.
    Caller,
}

fn default_patience() -> u32 {
    DEFAULT_PATIENCE_SECONDS
}

fn default_ask_again_after() -> u32 {
    DEFAULT_ASK_AGAIN_AFTER_SECONDS
}

fn default_blocked_patience() -> u32 {
    DEFAULT_BLOCKED_PATIENCE_SECONDS
}

fn give_up() -> DeadlineAction {
    DeadlineAction::GiveUp
}

impl Row {
    /// Returns a row of that name for every call, with the defaults.
    pub(super) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            matches: Vec::new(),
            act: RowAct::default(),
            on_refusal: RefusalPolicy::default(),
            patience_seconds: DEFAULT_PATIENCE_SECONDS,
            at_deadline: give_up(),
            ask_again_after_seconds: DEFAULT_ASK_AGAIN_AFTER_SECONDS,
            follows_owner: false,
            grace_period: GraceSource::default(),
            retry_after_seconds: 0,
            max_retry_after_seconds: 0,
            count_deletions: false,
            blocked_patience_seconds: DEFAULT_BLOCKED_PATIENCE_SECONDS,
        }
    }

    /// Returns the name of the row's entries in an Evacuation.
    pub(crate) fn entry_name(&self) -> String {
        format!("{GATEWAY_ENTRY_PREFIX}{}", self.name)
    }

    /// Returns the seconds of the header Retry-After for a caller whose entry is that old; 0 for no header.
    ///
    /// The pauses about double. So the caller learns at once of an app that accepts at once, and the ten
    /// tries of client-go last longer than an app may stay silent. The age of the entry is stored, and the
    /// gateway keeps no count of tries.
    pub(crate) fn retry_after(&self, age: TimeDelta) -> u32 {
        let age = u32::try_from(age.num_seconds()).unwrap_or_default();
        if self.retry_after_seconds == 0 {
            return 0;
        }
        self.retry_after_seconds.saturating_add(age).min(self.longest_retry_after())
    }

    /// Returns the longest Retry-After of the row, in seconds; 0 when the row sends none.
    pub(crate) fn longest_retry_after(&self) -> u32 {
        match self.retry_after_seconds {
            0 => 0,
            first => first.max(self.max_retry_after_seconds),
        }
    }

    fn matches(&self, call: &Call, pod: &Pod) -> bool {
        self.matches.is_empty() || self.matches.iter().any(|callers| callers.matches(call, pod))
    }
}

/// The rows in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    rows: Vec<Row>,
    /// The row of calls that no other row matches.
    last: Row,
}

impl Table {
    /// Returns a table of these rows before the built-in ones.
    pub(crate) fn new(first: Vec<Row>) -> Self {
        let rows = first.into_iter().chain(built_in()).collect();
        Self { rows, last: Row::named("unknown") }
    }

    /// Returns the row of that name. A row of the file comes before a built-in one.
    pub(crate) fn named(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// Returns the row of a call for a pod.
    pub(crate) fn row(&self, call: &Call, pod: &Pod) -> &Row {
        self.rows.iter().find(|row| row.matches(call, pod)).unwrap_or(&self.last)
    }
}

#[cfg(test)]
mod tests {
    use evacuation_api::DEFAULT_TIMEOUT_SECONDS;

    use super::*;

    /// Maximum number of repetitions of a request, `rest/request.go`, client-go v0.37.1.
    const REPETITIONS: u32 = 10;

    /// Returns the times of the tries of a caller, in seconds from its first, by a clock that is off by
    /// `skew`.
    fn tries(row: &Row, skew: i64) -> Vec<u32> {
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
            let row = Row { retry_after_seconds: first, max_retry_after_seconds: max, ..Row::named("other") };
            assert_eq!(row.retry_after(TimeDelta::seconds(age)), expected, "{first} {max} {age}");
        }
    }
}
