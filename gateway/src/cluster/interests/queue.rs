//! The Evacuations whose entries are to be looked at, each with its time.

use std::collections::{BTreeSet, HashMap, HashSet};

use tokio::time::Instant;

/// Namespace and name of an Evacuation.
pub(crate) type Key = (String, String);

/// A queue of Evacuations. It is bounded by their number: each is in it once.
#[derive(Debug, Default)]
pub(super) struct Queue {
    by_time: BTreeSet<(Instant, Key)>,
    times: HashMap<Key, Instant>,
    /// The Evacuations with followed entries, by the UID of the pod's owner.
    by_owner: HashMap<String, HashSet<Key>>,
    owners: HashMap<Key, String>,
}

impl Queue {
    /// Adds an Evacuation that is due at that time. The sooner of two times counts.
    pub(super) fn add(&mut self, key: Key, due: Instant) {
        if self.times.get(&key).is_some_and(|known| *known <= due) {
            return;
        }
        if let Some(known) = self.times.insert(key.clone(), due) {
            self.by_time.remove(&(known, key.clone()));
        }
        self.by_time.insert((due, key));
    }

    /// Adds every Evacuation whose entries follow that owner. Returns true when there is any.
    pub(super) fn add_of_owner(&mut self, uid: &str, due: Instant) -> bool {
        let keys: Vec<Key> = self.by_owner.get(uid).into_iter().flatten().cloned().collect();
        let any = !keys.is_empty();
        for key in keys {
            self.add(key, due);
        }
        any
    }

    /// Takes every Evacuation that is due.
    pub(super) fn take(&mut self, now: Instant) -> Vec<Key> {
        let mut taken = Vec::new();
        while let Some((due, _)) = self.by_time.first()
            && *due <= now
            && let Some((_, key)) = self.by_time.pop_first()
        {
            self.times.remove(&key);
            taken.push(key);
        }
        taken
    }

    /// Returns the time of the next one.
    pub(super) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(due, _)| *due)
    }

    /// Remembers the owner that the entries of an Evacuation follow.
    pub(super) fn follow(&mut self, key: &Key, uid: &str) {
        if self.owners.get(key).is_some_and(|known| known == uid) {
            return;
        }
        self.forget(key);
        self.owners.insert(key.clone(), uid.to_owned());
        self.by_owner.entry(uid.to_owned()).or_default().insert(key.clone());
    }

    /// Forgets an Evacuation without such entries.
    pub(super) fn forget(&mut self, key: &Key) {
        let Some(uid) = self.owners.remove(key) else { return };
        if let Some(keys) = self.by_owner.get_mut(&uid) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_owner.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(name: &str) -> Key {
        ("shop".to_owned(), name.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn an_evacuation_is_taken_once_at_the_sooner_of_its_times() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let later = now + Duration::from_secs(5);
        queue.add(key("a"), later);
        queue.add(key("b"), later);
        queue.add(key("a"), now);
        queue.add(key("a"), later);
        assert_eq!((queue.take(now), queue.next()), (vec![key("a")], Some(later)));
        assert_eq!((queue.take(later), queue.next()), (vec![key("b")], None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_an_owner_concerns_the_evacuations_that_follow_it_and_no_others() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.follow(&key("a"), "rs-1");
        queue.follow(&key("b"), "rs-2");
        assert!(queue.add_of_owner("rs-1", now) && !queue.add_of_owner("rs-3", now));
        assert_eq!(queue.take(now), [key("a")]);
        queue.follow(&key("a"), "rs-2");
        queue.forget(&key("b"));
        assert!(!queue.add_of_owner("rs-1", now) && queue.add_of_owner("rs-2", now));
        assert_eq!(queue.take(now), [key("a")]);
        queue.forget(&key("a"));
        assert!(queue.by_owner.is_empty() && queue.owners.is_empty(), "nothing is left behind");
    }
}
