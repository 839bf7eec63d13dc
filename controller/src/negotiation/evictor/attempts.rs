//! The attempts that this process recorded: posted or not, and how they went.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use evacuation_api::Evacuation;
use evacuation_protocol::{ATTEMPT_TIMEOUT_SECONDS, Attempt, EvictionOutcome};
use tokio::time::Instant;

use crate::cluster::ObjectKey;

/// Time between the last moment at which an attempt can take effect and the moment at which any process
/// resolves it. A kube-apiserver whose request has timed out may still have a write under way in etcd.
const MARGIN: Duration = Duration::from_secs(1);

/// Identity of an attempt. Knowledge of one says nothing of another, also of the same Evacuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttemptId {
    /// The UID of the Evacuation.
    uid: String,
    /// Number of the attempt.
    number: i32,
}

impl AttemptId {
    /// The last attempt that is recorded of an Evacuation.
    pub(crate) fn last(evacuation: &Evacuation) -> Self {
        let status = evacuation.status.as_ref();
        let eviction = status.and_then(|status| status.eviction.as_ref());
        Self {
            uid: evacuation.metadata.uid.clone().unwrap_or_default(),
            number: eviction.map_or(0, |eviction| eviction.attempts),
        }
    }
}

/// The attempts that this process recorded, one an Evacuation.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<HashMap<ObjectKey, Entry>>);

#[derive(Debug)]
struct Entry {
    id: AttemptId,
    /// Last moment at which the attempt can take effect.
    until: Instant,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Recorded,
    Posted,
    Over(EvictionOutcome),
}

impl Attempts {
    /// Records that an attempt was recorded by a write that began at `began`.
    pub(crate) fn recorded(&self, key: &ObjectKey, id: AttemptId, began: Instant) {
        let time = Duration::from_secs(ATTEMPT_TIMEOUT_SECONDS.unsigned_abs()).saturating_sub(MARGIN);
        self.lock().insert(key.clone(), Entry { id, until: began + time, state: State::Recorded });
    }

    /// Claims the right to post a recorded attempt. Returns the last moment at which it can take effect;
    /// `None` when there is nothing to post.
    pub(crate) fn post(&self, key: &ObjectKey, id: &AttemptId) -> Option<Instant> {
        let mut entries = self.lock();
        let entry =
            entries.get_mut(key).filter(|entry| entry.id == *id && matches!(entry.state, State::Recorded))?;
        entry.state = State::Posted;
        Some(entry.until)
    }

    /// Takes in how a posted attempt went. Without an outcome it counts as one of which nothing is known.
    pub(crate) fn over(&self, key: &ObjectKey, id: &AttemptId, outcome: Option<EvictionOutcome>) {
        let mut entries = self.lock();
        if entries.get(key).is_none_or(|entry| entry.id != *id) {
            return;
        }
        match outcome {
            Some(outcome) => {
                if let Some(entry) = entries.get_mut(key) {
                    entry.state = State::Over(outcome);
                }
            }
            None => {
                entries.remove(key);
            }
        }
    }

    /// Outcome of an attempt, once it is over.
    pub(crate) fn outcome(&self, key: &ObjectKey, id: &AttemptId) -> Option<EvictionOutcome> {
        match self.lock().get(key).filter(|entry| entry.id == *id).map(|entry| entry.state.clone()) {
            Some(State::Over(outcome)) => Some(outcome),
            _ => None,
        }
    }

    /// Knowledge of an attempt that the status records as in flight.
    pub(crate) fn view(&self, key: &ObjectKey, id: &AttemptId) -> Attempt {
        match self.lock().get(key).filter(|entry| entry.id == *id).map(|entry| entry.state.clone()) {
            None => Attempt::Unknown,
            Some(State::Recorded) => Attempt::Recorded,
            Some(State::Posted | State::Over(_)) => Attempt::Posted,
        }
    }

    /// Returns true when this process recorded an attempt of an Evacuation that is not settled.
    pub(crate) fn has(&self, key: &ObjectKey) -> bool {
        self.lock().contains_key(key)
    }

    /// Forgets the attempt of an Evacuation: its outcome is recorded, or the Evacuation is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// The Evacuations whose attempts were posted and are not recorded as over.
    pub(crate) fn open(&self) -> Vec<ObjectKey> {
        let entries = self.lock();
        entries
            .iter()
            .filter(|(_, entry)| !matches!(entry.state, State::Recorded))
            .map(|(key, _)| key.clone())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(uid: &str, number: i32) -> AttemptId {
        AttemptId { uid: uid.to_owned(), number }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_of_one_attempt_says_nothing_of_the_next() {
        let (attempts, key) = (Attempts::default(), ObjectKey::new("ns", "a"));
        let (first, second) = (id("e1", 1), id("e1", 2));
        attempts.recorded(&key, first.clone(), Instant::now());
        // Another process found out what became of the first, and recorded the second.
        assert_eq!(attempts.view(&key, &second), Attempt::Unknown);
        assert_eq!(attempts.post(&key, &second), None);
        attempts.post(&key, &first);
        attempts.over(&key, &first, Some(EvictionOutcome::Accepted));
        assert_eq!(attempts.outcome(&key, &second), None);
        attempts.recorded(&key, second.clone(), Instant::now());
        attempts.over(&key, &first, None);
        assert_eq!(attempts.view(&key, &second), Attempt::Recorded, "a late outcome");
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_is_posted_once() {
        let (attempts, key) = (Attempts::default(), ObjectKey::new("ns", "a"));
        assert_eq!(attempts.view(&key, &id("e1", 1)), Attempt::Unknown);
        assert_eq!(attempts.post(&key, &id("e1", 1)), None, "nothing was recorded");
        let began = Instant::now();
        attempts.recorded(&key, id("e1", 1), began);
        assert_eq!(attempts.view(&key, &id("e1", 1)), Attempt::Recorded);
        assert_eq!(attempts.post(&key, &id("e2", 1)), None, "another Evacuation of that name");
        assert_eq!(attempts.post(&key, &id("e1", 1)), Some(began + Duration::from_secs(9)));
        assert_eq!(attempts.post(&key, &id("e1", 1)), None);
        assert_eq!(attempts.view(&key, &id("e1", 1)), Attempt::Posted);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outcome_waits_until_it_is_recorded_and_a_lost_one_leaves_nothing() {
        let (attempts, key) = (Attempts::default(), ObjectKey::new("ns", "a"));
        attempts.recorded(&key, id("e1", 1), Instant::now());
        attempts.post(&key, &id("e1", 1));
        attempts.over(&key, &id("e1", 1), Some(EvictionOutcome::Accepted));
        assert_eq!(attempts.outcome(&key, &id("e1", 1)), Some(EvictionOutcome::Accepted));
        assert_eq!(attempts.outcome(&key, &id("e2", 1)), None);
        assert_eq!(attempts.open(), std::slice::from_ref(&key));
        attempts.forget(&key);
        attempts.recorded(&key, id("e1", 1), Instant::now());
        attempts.post(&key, &id("e1", 1));
        attempts.over(&key, &id("e1", 1), None);
        assert_eq!(attempts.view(&key, &id("e1", 1)), Attempt::Unknown);
        assert!(attempts.open().is_empty());
    }
}
