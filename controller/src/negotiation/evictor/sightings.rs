//! Since when attempts are seen in flight, by a clock that no other machine's clock matters to.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use evacuation_api::Evacuation;
use evacuation_protocol::ATTEMPT_TIMEOUT_SECONDS;
use tokio::time::Instant;

use crate::cluster::ObjectKey;

/// The attempts that this process sees in flight, one an Evacuation, whoever made them.
///
/// # Guarantees
///
/// An attempt is seen only after it was recorded. So its time is over when it was seen for that time, however
/// far the clocks of this machine and of the server are apart.
#[derive(Debug, Default)]
pub(crate) struct Sightings(Mutex<HashMap<ObjectKey, Sighting>>);

#[derive(Debug)]
struct Sighting {
    /// The UID of the Evacuation.
    uid: String,
    /// Number of the attempt.
    attempt: i32,
    since: Instant,
}

impl Sightings {
    /// Takes in what an Evacuation is now. `None` when it is gone.
    pub(crate) fn observe(&self, key: &ObjectKey, evacuation: Option<&Evacuation>) {
        if evacuation.and_then(|seen| self.over(key, seen)).is_none() {
            self.lock().remove(key);
        }
    }

    /// Moment at which the time of the attempt in flight is over; `None` when none is in flight. One that was
    /// not seen before is seen now.
    pub(crate) fn over(&self, key: &ObjectKey, evacuation: &Evacuation) -> Option<Instant> {
        let eviction = evacuation.status.as_ref()?.eviction.as_ref()?;
        if !eviction.in_flight {
            return None;
        }
        let uid = evacuation.metadata.uid.as_deref().unwrap_or_default();
        let fresh = || Sighting { uid: uid.to_owned(), attempt: eviction.attempts, since: Instant::now() };
        let mut sightings = self.lock();
        let sighting = sightings.entry(key.clone()).or_insert_with(fresh);
        if (sighting.uid.as_str(), sighting.attempt) != (uid, eviction.attempts) {
            *sighting = fresh();
        }
        Some(sighting.since + Duration::from_secs(ATTEMPT_TIMEOUT_SECONDS.unsigned_abs()))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Sighting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::advance;

    use super::*;

    fn evacuation(uid: &str, attempts: i32, in_flight: bool) -> Evacuation {
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "e", "uid": uid},
            "spec": {"target": {"pod": {"name": "p"}}},
            "status": {"eviction": {"attempts": attempts, "inFlight": in_flight}},
        }))
        .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn each_attempt_is_counted_from_when_it_was_first_seen() {
        let (sightings, key) = (Sightings::default(), ObjectKey::new("ns", "e"));
        let time = Duration::from_secs(10);
        let first = evacuation("e1", 1, true);
        sightings.observe(&key, Some(&first));
        let seen = Instant::now();
        advance(Duration::from_secs(4)).await;
        sightings.observe(&key, Some(&first));
        assert_eq!(sightings.over(&key, &first), Some(seen + time));
        assert_eq!(sightings.over(&key, &evacuation("e1", 1, false)), None);
        for next in [evacuation("e1", 2, true), evacuation("e2", 2, true)] {
            advance(Duration::from_secs(1)).await;
            assert_eq!(sightings.over(&key, &next), Some(Instant::now() + time));
        }
        sightings.observe(&key, None);
        assert!(sightings.lock().is_empty());
    }
}
