//! Who is told of changes.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::mpsc;

use super::{change::Change, scope::Scope};

/// So many changes can wait for a reader; one that falls further behind is ended, for it must not hold up the others.
const WAITING: usize = 1024;

/// Who is told of changes. Grouped by namespace, so that a change costs nothing to the readers of other namespaces.
#[derive(Debug)]
pub(crate) struct Subscribers<O> {
    by_prefix: HashMap<String, HashMap<u64, Subscriber<O>>>,
    next: u64,
}

#[derive(Debug)]
struct Subscriber<O> {
    scope: Scope,
    sender: mpsc::Sender<Arc<Change<O>>>,
}

/// One subscriber, for [`Subscribers::remove`].
#[derive(Debug)]
pub(crate) struct Key {
    prefix: String,
    number: u64,
}

impl<O> Subscribers<O> {
    pub(crate) fn new() -> Self {
        Self { by_prefix: HashMap::new(), next: 0 }
    }

    /// Tells the receiver of every change in its scope from now on. Closed when the reader is too slow.
    pub(crate) fn add(&mut self, scope: Scope) -> (Key, mpsc::Receiver<Arc<Change<O>>>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let key = Key { prefix: scope.prefix().to_owned(), number: self.next };
        self.next += 1;
        let group = self.by_prefix.entry(key.prefix.clone()).or_default();
        group.insert(key.number, Subscriber { scope, sender });
        (key, receiver)
    }

    /// Tells that one no more.
    pub(crate) fn remove(&mut self, key: &Key) {
        if let Some(group) = self.by_prefix.get_mut(&key.prefix) {
            group.remove(&key.number);
            if group.is_empty() {
                self.by_prefix.remove(&key.prefix);
            }
        }
    }

    /// Ends all.
    pub(crate) fn end(&mut self) {
        self.by_prefix.clear();
    }

    /// Tells those who want to know. Never waits.
    pub(crate) fn tell(&mut self, change: &Arc<Change<O>>) {
        self.for_groups(&change.key, |subscriber| {
            !subscriber.scope.covers(&change.key) || subscriber.sender.try_send(change.clone()).is_ok()
        });
    }

    /// Ends those who would be told of a key.
    pub(crate) fn end_of(&mut self, key: &str) {
        self.for_groups(key, |subscriber| !subscriber.scope.covers(key));
    }

    /// Goes through the groups that may want to know of a key, and leaves in them whom `stays` says.
    fn for_groups(&mut self, key: &str, stays: impl Fn(&Subscriber<O>) -> bool) {
        let namespace = key.find('/').and_then(|slash| key.get(..=slash));
        for prefix in std::iter::once("").chain(namespace) {
            let Some(group) = self.by_prefix.get_mut(prefix) else {
                continue;
            };
            group.retain(|_, subscriber| stays(subscriber));
            if group.is_empty() {
                self.by_prefix.remove(prefix);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_prefix.values().map(HashMap::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use std::collections::VecDeque;

    use super::*;
    use crate::cache::Subscription;

    fn change(revision: i64, key: &str) -> Arc<Change<ConfigMap>> {
        Arc::new(Change::new(revision, key.to_owned(), None, None))
    }

    #[tokio::test]
    async fn a_slow_reader_is_ended_and_the_others_go_on() {
        let mut subscribers = Subscribers::new();
        let (_, mut slow) = subscribers.add(Scope::default());
        let (_, mut quick) = subscribers.add(Scope::new("n", None, true));
        let all = i64::try_from(WAITING).expect("small") + 1;
        for revision in 1..=all {
            subscribers.tell(&change(revision, "n/a"));
            assert_eq!(quick.recv().await.expect("told").revision, revision);
        }
        let mut read = 0;
        while slow.recv().await.is_some() {
            read += 1;
        }
        assert_eq!(read, WAITING, "told of what fitted, then ended");
    }

    #[tokio::test]
    async fn a_reader_that_was_left_behind_is_not_told_that_it_has_everything() {
        let mut subscribers = Subscribers::new();
        let mut subscription = Subscription {
            present: Vec::new(),
            backlog: Vec::new(),
            changes: subscribers.add(Scope::default()).1,
            revision: 0,
            _place: None,
        };
        let mut taken = VecDeque::new();
        subscribers.tell(&change(1, "n/a"));
        assert!(subscription.take_waiting(&mut taken), "nothing was lost yet");
        for revision in 2..=i64::try_from(WAITING).expect("small") + 2 {
            subscribers.tell(&change(revision, "n/a"));
        }
        assert!(!subscription.take_waiting(&mut taken), "the last change did not fit");
        assert_eq!(taken.len(), WAITING + 1);
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
