//! The file of the gateway's configuration: a table that maps callers to the treatment of their calls.

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use crate::{DeadlineAction, GATEWAY_DOMAIN, GATEWAY_ENTRY_PREFIX, RefusalPolicy, VERSION};

/// Time after the last call at which an entry expires, unless the row says otherwise.
const DEFAULT_PATIENCE_SECONDS: u32 = 60;
/// Time in which a refusal is answered from its record, unless the row says otherwise.
const DEFAULT_ASK_AGAIN_AFTER_SECONDS: u32 = 300;
/// Time in which a budget may hold a counted deletion back, unless the row says otherwise.
const DEFAULT_BLOCKED_PATIENCE_SECONDS: u32 = 1800;

/// The document: rows that come before the built-in ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayConfiguration {
    /// The version, [`Self::api_version`].
    pub api_version: String,
    /// The kind, [`Self::KIND`].
    pub kind: String,
    /// The rows, in the order in which they are tried.
    #[serde(default)]
    pub callers: Vec<CallerRow>,
}

impl GatewayConfiguration {
    /// The kind of every file.
    pub const KIND: &str = "GatewayConfiguration";

    /// Returns the `apiVersion` of every file.
    #[must_use]
    pub fn api_version() -> String {
        format!("{GATEWAY_DOMAIN}/{VERSION}")
    }
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallerRow {
    /// Name of the row, and the end of the name of its entries.
    pub name: String,
    /// The calls of the row: those that match any of these. None matches every call.
    #[serde(default)]
    pub matches: Vec<CallerMatch>,
    /// Treatment of the calls; `Ask` by default.
    #[serde(default)]
    pub act: CallerAct,
    /// Reaction to a refusal; `Wait` by default.
    #[serde(default)]
    pub on_refusal: RefusalPolicy,
    /// Time from a call to the deadline of its entry.
    #[serde(default = "default_patience")]
    pub patience_seconds: u32,
    /// Action at the deadline: `GiveUp` by default, or `Evict`. With `GiveUp` each retry moves the deadline.
    #[serde(default = "give_up")]
    pub at_deadline: DeadlineAction,
    /// Time after a refusal in which further calls are answered from its record.
    #[serde(default = "default_ask_again_after")]
    pub ask_again_after_seconds: u32,
    /// True when an entry leaves once the pod's controller no longer wants the deletion.
    #[serde(default)]
    pub follows_owner: bool,
    /// Source of the grace period of the eviction.
    #[serde(default)]
    pub grace_period: GraceSource,
    /// Seconds of the header Retry-After. 0 sends no header, and the caller's own loop decides.
    #[serde(default)]
    pub retry_after_seconds: u32,
    /// Maximum of the header Retry-After, which grows with the age of the caller's entry. 0 keeps it fixed.
    #[serde(default)]
    pub max_retry_after_seconds: u32,
    /// True when deletions count against budgets in namespaces that opt in.
    #[serde(default)]
    pub count_deletions: bool,
    /// Time in which a budget may hold a counted deletion back. The deletion then passes.
    #[serde(default = "default_blocked_patience")]
    pub blocked_patience_seconds: u32,
}

/// Treatment of the calls of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallerAct {
    /// The pod is asked.
    #[default]
    Ask,
    /// The call passes.
    Pass,
}

/// Source of the grace period of the eviction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GraceSource {
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

impl CallerRow {
    /// Returns a row of that name for every call, with the defaults.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            matches: Vec::new(),
            act: CallerAct::default(),
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
    pub fn entry_name(&self) -> String {
        format!("{GATEWAY_ENTRY_PREFIX}{}", self.name)
    }

    /// Returns the seconds of the header Retry-After for a caller whose entry is that old; 0 for no header.
    ///
    /// The pauses about double. So the caller learns at once of an app that accepts at once, and the ten
    /// tries of client-go last longer than an app may stay silent. The age of the entry is stored, and the
    /// gateway keeps no count of tries.
    pub fn retry_after(&self, age: TimeDelta) -> u32 {
        let age = u32::try_from(age.num_seconds()).unwrap_or_default();
        if self.retry_after_seconds == 0 {
            return 0;
        }
        self.retry_after_seconds.saturating_add(age).min(self.longest_retry_after())
    }

    /// Returns the longest Retry-After of the row, in seconds; 0 when the row sends none.
    pub fn longest_retry_after(&self) -> u32 {
        match self.retry_after_seconds {
            0 => 0,
            first => first.max(self.max_retry_after_seconds),
        }
    }
}

/// A description of calls. Each field that is given must match. A field that is a list matches by any of its
/// items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallerMatch {
    /// Users. `*` in a name stands for any text.
    #[serde(default)]
    pub users: Vec<String>,
    /// Groups of the user.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Operations.
    #[serde(default)]
    pub operations: Vec<Operation>,
    /// Kinds of the pod's controller, such as `ReplicaSet`.
    #[serde(default)]
    pub owner_kinds: Vec<String>,
    /// Reasons of the pod's condition DisruptionTarget, such as `DeletionByTaintManager`.
    #[serde(default)]
    pub disruption_reasons: Vec<String>,
    /// Range of the grace period that the caller chose. A call that leaves it to the pod does not match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<GraceRange>,
}

/// A range of grace periods, with both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GraceRange {
    /// The shortest; 0 by default.
    #[serde(default)]
    pub min: i64,
    /// The longest; unbounded by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
}

impl GraceRange {
    /// Returns true for a grace period of the range, in seconds.
    #[must_use]
    pub fn contains(self, seconds: i64) -> bool {
        seconds >= self.min && self.max.is_none_or(|max| seconds <= max)
    }
}

/// Operation of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// A creation of `pods/eviction`.
    Evict,
    /// A deletion of a pod.
    Delete,
}

impl Operation {
    /// Returns the word for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Evict => "evict",
            Self::Delete => "delete",
        }
    }

    /// Returns the verb of a sentence: "alice asked to evict the pod".
    pub fn verb(self) -> &'static str {
        match self {
            Self::Evict => "evict",
            Self::Delete => "delete",
        }
    }
}
