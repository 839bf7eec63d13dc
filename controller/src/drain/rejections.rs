//! Requests that the API server rejected, by drain, and by pod or node.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Mutex,
    time::Duration,
};

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use crate::cluster::{CallError, ObjectKey, lock};

/// Pause before a rejected request is made again.
const PAUSE: Duration = Duration::from_secs(10);
/// Maximum length of a message that is kept, in bytes.
const MESSAGE: usize = 512;

/// One rejection.
#[derive(Clone, Debug)]
struct Rejection {
    message: String,
    since: DateTime<Utc>,
    retry: Instant,
}

/// The rejections, each of a pod that its drain still wants to move.
#[derive(Default)]
pub(super) struct Rejections(Mutex<HashMap<ObjectKey, BTreeMap<String, Rejection>>>);

impl Rejections {
    /// Records that the request for the pod of that UID was rejected.
    pub(super) fn add(&self, drain: &ObjectKey, pod: &str, message: &str, now: DateTime<Utc>) {
        let mut all = lock(&self.0);
        let of_drain = all.entry(drain.clone()).or_default();
        let since = of_drain.get(pod).map_or(now, |known| known.since);
        let end = message.floor_char_boundary(MESSAGE.min(message.len()));
        let message = message.get(..end).unwrap_or_default().to_owned();
        of_drain.insert(pod.to_owned(), Rejection { message, since, retry: Instant::now() + PAUSE });
    }

    /// Returns the message, and the time of the first rejection.
    pub(super) fn of(&self, drain: &ObjectKey, pod: &str) -> Option<(String, DateTime<Utc>)> {
        let all = lock(&self.0);
        let known = all.get(drain)?.get(pod)?;
        Some((known.message.clone(), known.since))
    }

    /// Returns true while it is too early to make the request again.
    pub(super) fn rests(&self, drain: &ObjectKey, pod: &str) -> bool {
        let all = lock(&self.0);
        all.get(drain).and_then(|pods| pods.get(pod)).is_some_and(|known| Instant::now() < known.retry)
    }

    /// Forgets the rejection of a pod whose request was taken.
    pub(super) fn remove(&self, drain: &ObjectKey, pod: &str) {
        if let Some(of_drain) = lock(&self.0).get_mut(drain) {
            of_drain.remove(pod);
        }
    }

    /// Keeps the rejections of these pods and nodes only.
    pub(super) fn retain(&self, drain: &ObjectKey, wanted: &BTreeSet<String>) {
        let mut all = lock(&self.0);
        if let Some(of_drain) = all.get_mut(drain) {
            of_drain.retain(|key, _| wanted.contains(key));
        }
        all.retain(|_, pods| !pods.is_empty());
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }
}

/// Key of a node among the rejections.
pub(super) fn node_key(node: &str) -> String {
    format!("node/{node}")
}

/// Returns true when the API server rejects the request, and not merely this attempt.
pub(super) fn is_rejection(error: &CallError) -> bool {
    error.is_of_unreadable() || matches!(error.code(), 400..=499) && !matches!(error.code(), 408 | 429)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_cannot_be_read_is_a_rejection_that_rests_and_another_failure_is_none() {
        let refused = |code: u16, reason: &str, cause: &str| {
            let status = json!({"code": code, "reason": reason, "details": {"causes": [{"reason": cause}]}});
            let status = serde_json::from_value(status).unwrap();
            CallError::Api { action: "ask".to_owned(), source: kube::Error::Api(Box::new(status)) }
        };
        for (error, rests) in [
            (refused(500, "StorageReadError", "UnexpectedServerResponse"), true),
            (refused(409, "Conflict", "ActiveEvacuationUnreadable"), true),
            (refused(500, "InternalError", ""), false),
            (refused(429, "TooManyRequests", ""), false),
        ] {
            assert_eq!(is_rejection(&error), rests, "{error:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejected_request_rests_and_keeps_the_time_of_its_first_rejection() {
        let (rejections, drain) = (Rejections::default(), ObjectKey::new("", "d"));
        let at = |second| DateTime::from_timestamp(second, 0).unwrap();
        rejections.add(&drain, "p", "full", at(1));
        assert!(rejections.rests(&drain, "p"));
        tokio::time::advance(PAUSE).await;
        assert!(!rejections.rests(&drain, "p"));
        rejections.add(&drain, "p", &"ü".repeat(MESSAGE), at(9));
        let (message, since) = rejections.of(&drain, "p").unwrap();
        assert_eq!((message.len(), since), (MESSAGE, at(1)));
        rejections.retain(&drain, &BTreeSet::from(["other".to_owned()]));
        assert_eq!(rejections.of(&drain, "p"), None);
    }
}
