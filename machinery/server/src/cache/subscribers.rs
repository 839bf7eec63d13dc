//! Subscribers to the changes of a kind.

use std::{collections::HashMap, sync::Arc};

use super::{
    change::Change,
    queue::{Backlog, Receiver, Sender, queue},
    scope::Scope,
};
use crate::Object;

/// Subscribers to changes, grouped by what they read: all objects, a namespace, or one object. A change costs
/// nothing to the readers of other namespaces and other objects.
#[derive(Debug)]
pub(crate) struct Subscribers<O> {
    /// By the part of the keys that they read, see [`Scope::part`].
    by_part: HashMap<String, HashMap<u64, Subscriber<O>>>,
    next: u64,
    count: usize,
    /// Number of readers that were ended because they fell behind.
    behind: u64,
    backlog: Backlog,
}

#[derive(Debug)]
struct Subscriber<O> {
    scope: Scope,
    sender: Sender<O>,
}

/// One subscriber, for [`Subscribers::remove`].
#[derive(Debug)]
pub(crate) struct Key {
    part: String,
    number: u64,
}

impl<O> Subscribers<O> {
    pub(crate) fn new() -> Self {
        Self { by_part: HashMap::new(), next: 0, count: 0, behind: 0, backlog: Backlog::default() }
    }

    /// Adds a reader of the changes in a scope. Its queue is closed when the reader falls behind.
    pub(crate) fn add(&mut self, scope: Scope) -> (Key, Receiver<O>) {
        let (sender, receiver) = queue(&self.backlog);
        let key = Key { part: scope.part().to_owned(), number: self.next };
        self.next += 1;
        self.count += 1;
        let group = self.by_part.entry(key.part.clone()).or_default();
        group.insert(key.number, Subscriber { scope, sender });
        (key, receiver)
    }

    /// Removes a reader.
    pub(crate) fn remove(&mut self, key: &Key) {
        if let Some(group) = self.by_part.get_mut(&key.part) {
            if group.remove(&key.number).is_some() {
                self.count -= 1;
            }
            if group.is_empty() {
                self.by_part.remove(&key.part);
            }
        }
    }

    /// Ends all readers.
    pub(crate) fn end(&mut self) {
        self.by_part.clear();
        self.count = 0;
    }

    /// Ends the readers whose scope covers a key.
    pub(crate) fn end_of(&mut self, key: &str) {
        self.for_groups(key, |subscriber| !subscriber.scope.covers(key));
    }

    /// Keeps, of the readers whose group covers a key, those for which `stays` is true.
    fn for_groups(&mut self, key: &str, stays: impl Fn(&Subscriber<O>) -> bool) {
        let namespace = key.find('/').and_then(|slash| key.get(..=slash));
        for part in std::iter::once("").chain(namespace).chain(std::iter::once(key)) {
            let Some(group) = self.by_part.get_mut(part) else {
                continue;
            };
            let before = group.len();
            group.retain(|_, subscriber| stays(subscriber));
            self.count -= before - group.len();
            if group.is_empty() {
                self.by_part.remove(part);
            }
        }
    }

    /// Number of readers that were ended because they fell behind.
    pub(crate) fn behind(&self) -> u64 {
        self.behind
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.count, self.by_part.values().map(HashMap::len).sum::<usize>());
        self.count
    }
}

impl<O: Object> Subscribers<O> {
    /// Sends a change to the readers whose scope covers it. Never waits.
    pub(crate) fn tell(&mut self, change: &Arc<Change<O>>) {
        let before = self.count;
        self.for_groups(&change.key, |subscriber| {
            !subscriber.scope.covers(&change.key) || subscriber.sender.send(change, before)
        });
        self.behind += u64::try_from(before - self.count).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use std::collections::VecDeque;

    use super::*;
    use crate::cache::{Snapshot, Subscription};

    /// Number of changes that fit a reader's queue.
    const WAITING: i64 = 1024;

    fn change(revision: i64, key: &str) -> Arc<Change<ConfigMap>> {
        Arc::new(Change::new(revision, key.into(), None, None))
    }

    #[tokio::test]
    async fn a_slow_reader_is_ended_and_the_others_go_on() {
        let mut subscribers = Subscribers::new();
        let (_, mut slow) = subscribers.add(Scope::default());
        let (_, mut quick) = subscribers.add(Scope::new("n", None, true));
        let all = WAITING + 1;
        for revision in 1..=all {
            subscribers.tell(&change(revision, "n/a"));
            assert_eq!(quick.recv().await.expect("told").revision, revision);
        }
        let mut read: i64 = 0;
        while slow.recv().await.is_some() {
            read += 1;
        }
        assert_eq!(read, WAITING, "told of what fitted, then ended");
        assert_eq!(subscribers.behind(), 1);
    }

    #[tokio::test]
    async fn a_reader_that_was_left_behind_is_not_told_that_it_has_everything() {
        let mut subscribers = Subscribers::new();
        let mut subscription = Subscription {
            present: Snapshot::empty(0),
            backlog: Vec::new(),
            changes: subscribers.add(Scope::default()).1,
            revision: 0,
            _place: None,
        };
        let mut taken = VecDeque::new();
        subscribers.tell(&change(1, "n/a"));
        assert!(subscription.take_waiting(&mut taken, usize::MAX), "nothing was lost yet");
        for revision in 2..=WAITING + 2 {
            subscribers.tell(&change(revision, "n/a"));
        }
        assert!(!subscription.take_waiting(&mut taken, usize::MAX), "the last change did not fit");
        assert_eq!(i64::try_from(taken.len()), Ok(WAITING + 1));
    }

    #[test]
    fn a_change_is_not_even_shown_to_the_readers_of_other_objects() {
        let mut subscribers: Subscribers<ConfigMap> = Subscribers::new();
        let scopes = [("n", Some("a")), ("n", Some("b")), ("m", Some("a")), ("n", None), ("", None)];
        let _kept: Vec<_> = scopes.map(|(space, name)| subscribers.add(Scope::new(space, name, true))).into();
        let shown = std::cell::RefCell::new(Vec::new());
        subscribers.for_groups("n/a", |subscriber| {
            shown.borrow_mut().push(subscriber.scope.part().to_owned());
            true
        });
        assert_eq!(shown.into_inner(), ["", "n/", "n/a"]);
    }

    #[tokio::test]
    async fn readers_are_told_of_their_scope_only() {
        let mut subscribers = Subscribers::new();
        let (_, mut one) = subscribers.add(Scope::new("n", Some("b"), true));
        let (_, mut other) = subscribers.add(Scope::new("m", None, true));
        subscribers.tell(&change(1, "n/a"));
        subscribers.tell(&change(2, "n/b"));
        subscribers.tell(&change(3, "m/a"));
        subscribers.end();
        assert_eq!(one.recv().await.map(|c| c.revision), Some(2));
        assert!(one.recv().await.is_none());
        assert_eq!(other.recv().await.map(|c| c.revision), Some(3));
        assert!(other.recv().await.is_none());
    }
}
