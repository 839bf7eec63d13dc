//! The entry of a requester: a request to move the pod.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{WholeSecond, Window};

/// One request to move the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requester {
    /// The user that the entry belongs to. The server fills in the caller's name when it is empty.
    /// Another name needs the verb `override`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// Domain-prefixed name, such as `drain.evacuation.dev/node-a`; unique among the owner's entries.
    pub name: String,
    /// The reason in CamelCase, for machines, such as `NodeMaintenance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason in words, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Reaction to a refusal; `Wait` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_refusal: Option<RefusalPolicy>,
    /// Time at which this requester stops negotiating, in whole seconds. The server rounds fractions up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<WholeSecond>,
    /// Action at the deadline; `Evict` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_deadline: Option<DeadlineAction>,
    /// Grace period of the eviction, in seconds; the pod's own by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// Time in which budgets may hold back the deletion that the entry stands for, in seconds. The deletion
    /// passes then. The gateway sets it for deletions that count as evictions; it evicts nothing by itself.
    /// Setting it needs the verb `override`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_patience_seconds: Option<i64>,
    /// Time that the caller behind the entry has to delete the pod itself once every responder is done, in
    /// seconds: its next try passes. Then the controller evicts the pod. It does so at once when another
    /// requester wants the pod, or overrides refusals. The gateway sets it for deletions. Setting it needs
    /// the verb `override`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller_deletes_within_seconds: Option<i64>,
    /// Time window in which this requester starts negotiating. The entry sleeps until the window opens or the
    /// deadline is reached. Without a window it starts at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

impl Requester {
    /// Returns an entry of that name that leaves everything else to the defaults.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            owner: String::new(),
            name: name.into(),
            reason: None,
            message: None,
            on_refusal: None,
            deadline: None,
            at_deadline: None,
            grace_period_seconds: None,
            budget_patience_seconds: None,
            caller_deletes_within_seconds: None,
            window: None,
        }
    }

    /// Returns the key of the entry in `spec.requesters`.
    pub fn key(&self) -> RequesterKey<'_> {
        RequesterKey { owner: &self.owner, name: &self.name }
    }
}

/// Reaction to a responder's refusal. Ordered by hardness: the hardest of the live entries counts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum RefusalPolicy {
    /// The Evacuation fails with reason `Refused`.
    GiveUp,
    /// The Evacuation stays open: the responder can still change its answer.
    #[default]
    Wait,
    /// The server records the refusal, and the controller asks the next responder.
    Override,
}

/// Action at a requester's deadline. Ordered by hardness.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
pub enum DeadlineAction {
    /// This requester's entry expires. When the last one expires, the Evacuation fails with reason
    /// `DeadlineGaveUp`.
    GiveUp,
    /// The controller skips the remaining responders and evicts the pod.
    #[default]
    Evict,
    /// The controller deletes the pod, whatever its budgets say.
    Delete,
}

/// Key of an entry of `spec.requesters`: its owner and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequesterKey<'a> {
    /// The user that the entry belongs to.
    pub owner: &'a str,
    /// The entry's name, unique among the owner's entries.
    pub name: &'a str,
}

impl fmt::Display for RequesterKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.name, self.owner)
    }
}
