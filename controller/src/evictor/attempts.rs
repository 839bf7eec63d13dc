//! The attempts that this process recorded: posted or not, and how they went.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use evacuation_protocol::{ATTEMPT_TIMEOUT_SECONDS, Attempt, EvictionOutcome};
use tokio::time::Instant;

use crate::ObjectKey;

/// How long before the end of its time an attempt must be over, so that another process, which counts from the server's
/// record of the attempt, never takes one for lost that is still to be posted.
const MARGIN: Duration = Duration::from_secs(2);

/// The attempts that this process recorded, one an Evacuation.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<HashMap<ObjectKey, Entry>>);

#[derive(Debug)]
struct Entry {
    /// The UID of the Evacuation.
    uid: String,
    /// When the attempt must be over.
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
    /// Records that the attempt of an Evacuation was recorded by a write that began at `began`.
    pub(crate) fn recorded(&self, key: &ObjectKey, uid: &str, began: Instant) {
        let time = Duration::from_secs(ATTEMPT_TIMEOUT_SECONDS.unsigned_abs()).saturating_sub(MARGIN);
        self.lock().insert(
            key.clone(),
            Entry {
                uid: uid.to_owned(),
                until: began + time,
                state: State::Recorded,
            },
        );
    }

    /// Claims the right to post a recorded attempt. Returns when it must be over; `None` when there is nothing to post.
    pub(crate) fn post(&self, key: &ObjectKey, uid: &str) -> Option<Instant> {
        let mut entries = self.lock();
        let entry = entries
            .get_mut(key)
            .filter(|entry| entry.uid == uid && matches!(entry.state, State::Recorded))?;
        entry.state = State::Posted;
        Some(entry.until)
    }

    /// Takes in how a posted attempt went. Without an outcome it counts as one of which nothing is known.
    pub(crate) fn over(&self, key: &ObjectKey, uid: &str, outcome: Option<EvictionOutcome>) {
        let mut entries = self.lock();
        if entries.get(key).is_none_or(|entry| entry.uid != uid) {
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

    /// How an attempt went, once it is over.
    pub(crate) fn outcome(&self, key: &ObjectKey, uid: &str) -> Option<EvictionOutcome> {
        match self
            .lock()
            .get(key)
            .filter(|entry| entry.uid == uid)
            .map(|entry| entry.state.clone())
        {
            Some(State::Over(outcome)) => Some(outcome),
            _ => None,
        }
    }

    /// What is known of an attempt that the status records as in flight.
    pub(crate) fn view(&self, key: &ObjectKey, uid: &str) -> Attempt {
        match self
            .lock()
            .get(key)
            .filter(|entry| entry.uid == uid)
            .map(|entry| entry.state.clone())
        {
            None => Attempt::Unknown,
            Some(State::Recorded) => Attempt::Recorded,
            Some(State::Posted | State::Over(_)) => Attempt::Posted,
        }
    }

    /// Whether this process recorded an attempt of an Evacuation that is not settled.
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

    #[tokio::test(start_paused = true)]
    async fn an_attempt_is_posted_once() {
        let (attempts, key) = (Attempts::default(), ObjectKey::new("ns", "a"));
        assert_eq!(attempts.view(&key, "e1"), Attempt::Unknown);
        assert_eq!(attempts.post(&key, "e1"), None, "nothing was recorded");
        let began = Instant::now();
        attempts.recorded(&key, "e1", began);
        assert_eq!(attempts.view(&key, "e1"), Attempt::Recorded);
        assert_eq!(attempts.post(&key, "e2"), None, "another Evacuation of that name");
        assert_eq!(attempts.post(&key, "e1"), Some(began + Duration::from_secs(8)));
        assert_eq!(attempts.post(&key, "e1"), None);
        assert_eq!(attempts.view(&key, "e1"), Attempt::Posted);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outcome_waits_until_it_is_recorded_and_a_lost_one_leaves_nothing() {
        let (attempts, key) = (Attempts::default(), ObjectKey::new("ns", "a"));
        attempts.recorded(&key, "e1", Instant::now());
        attempts.post(&key, "e1");
        attempts.over(&key, "e1", Some(EvictionOutcome::Accepted));
        assert_eq!(attempts.outcome(&key, "e1"), Some(EvictionOutcome::Accepted));
        assert_eq!(attempts.outcome(&key, "e2"), None);
        assert_eq!(attempts.open(), std::slice::from_ref(&key));
        attempts.forget(&key);
        attempts.recorded(&key, "e1", Instant::now());
        attempts.post(&key, "e1");
        attempts.over(&key, "e1", None);
        assert_eq!(attempts.view(&key, "e1"), Attempt::Unknown);
        assert!(attempts.open().is_empty());
    }
}
