//! The names of Kubernetes' own API for evictions: KEP-4563, `lifecycle.k8s.io/v1alpha1` as of 1.37.
//!
//! # Guarantees
//!
//! No other module knows a word of that API, except for the fields of pods that the controller's index
//! keeps. Where the KEP and 1.37 differ, 1.37 counts: its kube-apiserver checks what is written.

mod field;

use std::cmp::Ordering;

use chrono::{DateTime, Utc};
use evacuation_api::{condition_time, from_condition_time};
use k8s_openapi::{
    Resource,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};

use crate::status::{put, truncated};

pub(crate) use field::eviction_responders;
pub use k8s_openapi::api::lifecycle::v1alpha1::{Eviction, EvictionRequest};
pub(crate) use k8s_openapi::api::lifecycle::v1alpha1::{
    EvictionPodReference, EvictionSpec, EvictionStatus, EvictionTarget, Requester as Intention,
    ResponderStatus as Progress, TargetResponder,
};

/// The responder that stands for the eviction API itself. Here the evictor is no responder.
pub(crate) const EVICTOR: &str = "imperative-eviction.k8s.io/evictor";
/// Priority of [`EVICTOR`].
pub(crate) const EVICTOR_PRIORITY: i32 = 100;
/// Seconds without a heartbeat after which the next responder is asked.
pub(crate) const HEARTBEAT_SECONDS: i64 = 20 * 60;
/// Minimum of seconds between two heartbeats.
pub(crate) const HEARTBEAT_PAUSE_SECONDS: i64 = 20;
/// Maximum length of a responder's message, in bytes. The API counts characters.
pub(crate) const MAX_MESSAGE_BYTES: usize = 4000;
/// Maximum number of requesters of an Eviction.
pub(crate) const MAX_INTENTIONS: usize = 100;

/// Version of the API, as in an object's `apiVersion`.
pub(crate) const API_VERSION: &str = EvictionRequest::API_VERSION;
/// Kind of an EvictionRequest.
pub(crate) const REQUEST_KIND: &str = EvictionRequest::KIND;
/// Name by which Kubernetes' own controller writes, and by which it is known in `managedFields`.
pub(crate) const FIELD_MANAGER: &str = "evictionrequest-controller";
/// Maximum length of the part of a key after its domain.
const MAX_KEY_LENGTH: usize = 63;

/// Intents of a requester.
pub(crate) mod intent {
    pub(crate) const EVICTION: &str = "Eviction";
    pub(crate) const WITHDRAWN: &str = "Withdrawn";
}

/// States of a responder.
pub(crate) mod state {
    pub(crate) const INACTIVE: &str = "Inactive";
    pub(crate) const ACTIVE: &str = "Active";
    pub(crate) const INTERRUPTED: &str = "Interrupted";
    pub(crate) const CANCELED: &str = "Canceled";
    pub(crate) const COMPLETED: &str = "Completed";
}

/// Roles that the labels of an Eviction give to the names of its participants.
pub(crate) mod role {
    pub(crate) const REQUESTER: &str = "requester";
    pub(crate) const RESPONDER: &str = "responder";
    pub(crate) const BOTH: &str = "requester-responder";
}

/// The pair of conditions that Evictions and EvictionRequests have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The eviction goes on.
    Awaiting,
    /// The pod was deleted.
    PodDeleted,
    /// The pod has ended.
    PodTerminal,
    /// Every requester withdrew.
    Canceled,
    /// The pod was left alone.
    LeftAlone,
    /// The request cannot be met.
    Invalid,
}

const FAILED: &str = "Failed";
const TARGET_EVICTED: &str = "TargetEvicted";

impl End {
    /// Returns the conditions' statuses and reasons: of `Failed`, then of `TargetEvicted`.
    fn words(self) -> [(bool, &'static str); 2] {
        match self {
            Self::Awaiting => [(false, "AwaitingEviction"), (false, "AwaitingEviction")],
            Self::PodDeleted => [(false, "Succeeded"), (true, "PodDeleted")],
            Self::PodTerminal => [(false, "Succeeded"), (true, "PodTerminal")],
            Self::Canceled => [(true, "CanceledDueToNoRequesters"), (false, "EvictionFailed")],
            Self::LeftAlone => [(true, "NoFurtherResponder"), (false, "EvictionFailed")],
            Self::Invalid => [(true, "EvictionInvalid"), (false, "EvictionFailed")],
        }
    }

    /// Writes the conditions. One whose status is as before keeps its time.
    pub(crate) fn write(
        self,
        conditions: &mut Option<Vec<Condition>>,
        message: &str,
        generation: Option<i64>,
        now: DateTime<Utc>,
    ) {
        let all = conditions.get_or_insert_default();
        for (kind, (is_true, reason)) in [FAILED, TARGET_EVICTED].into_iter().zip(self.words()) {
            let next = Condition {
                type_: kind.to_owned(),
                status: if is_true { "True" } else { "False" }.to_owned(),
                reason: reason.to_owned(),
                message: truncated(message),
                observed_generation: generation,
                last_transition_time: condition_time(now),
            };
            put(all, next);
        }
    }
}

/// Returns true when one of the conditions says that the eviction has ended.
pub(crate) fn has_ended(conditions: Option<&Vec<Condition>>) -> bool {
    let all = conditions.into_iter().flatten();
    all.filter(|known| known.status == "True").any(|known| [FAILED, TARGET_EVICTED].contains(&&*known.type_))
}

/// Returns the order of two responders of one priority: the higher domains first, and the key last.
pub(crate) fn order_of_names(a: &str, b: &str) -> Ordering {
    fn parts(name: &str) -> (impl Iterator<Item = &str>, &str) {
        let (domain, key) = name.split_once('/').unwrap_or((name, ""));
        (domain.rsplit('.'), key)
    }
    let ((domain_a, key_a), (domain_b, key_b)) = (parts(a), parts(b));
    domain_a.cmp(domain_b).then_with(|| key_a.cmp(key_b))
}

/// Returns true for a name that the API takes as that of a requester: a label's key with a domain.
pub(crate) fn is_prefixed_key(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, key)| {
        let ends = |c: char| c.is_ascii_alphanumeric();
        !domain.is_empty()
            && key.len() <= MAX_KEY_LENGTH
            && key.starts_with(ends)
            && key.ends_with(ends)
            && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    })
}

/// Returns the time on the wire, which has whole seconds.
pub(crate) fn wire(now: DateTime<Utc>) -> Time {
    condition_time(now)
}

/// Returns the time of the wire.
pub(crate) fn of_wire(time: Option<&Time>) -> Option<DateTime<Utc>> {
    time.map(from_condition_time)
}
