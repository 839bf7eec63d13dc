//! Who is told of changes.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::mpsc;

use super::{change::Change, scope::Scope};
use crate::Object;

/// So many changes can wait for a reader; one that falls further behind is ended, for it must not hold up the others.
const WAITING: usize = 1024;

/// Who is told of changes. Grouped by namespace, so that a change costs nothing to the readers of other namespaces.
#[derive(Debug)]
pub(crate) struct Subscribers<O> {
    by_prefix: HashMap<String, Vec<Subscriber<O>>>,
}

#[derive(Debug)]
struct Subscriber<O> {
    scope: Scope,
    sender: mpsc::Sender<Arc<Change<O>>>,
}

impl<O: Object> Subscribers<O> {
    pub(crate) fn new() -> Self {
        Self {
            by_prefix: HashMap::new(),
        }
    }

    /// Tells the receiver of every change in its scope from now on. Closed when the reader is too slow.
    pub(crate) fn add(&mut self, scope: Scope) -> mpsc::Receiver<Arc<Change<O>>> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let group = self.by_prefix.entry(scope.prefix().to_owned()).or_default();
        group.retain(|subscriber| !subscriber.sender.is_closed());
        group.push(Subscriber { scope, sender });
        receiver
    }

    /// Ends all.
    pub(crate) fn end(&mut self) {
        self.by_prefix.clear();
    }

    /// Tells those who want to know. Never waits.
    pub(crate) fn tell(&mut self, change: &Arc<Change<O>>) {
        let namespace = change
            .key
            .find('/')
            .and_then(|slash| change.key.get(..=slash))
            .unwrap_or_default();
        self.tell_group("", change);
        if !namespace.is_empty() {
            self.tell_group(namespace, change);
        }
    }

    fn tell_group(&mut self, prefix: &str, change: &Arc<Change<O>>) {
        let Some(group) = self.by_prefix.get_mut(prefix) else {
            return;
        };
        group.retain(|subscriber| {
            !subscriber.scope.covers(&change.key) || subscriber.sender.try_send(change.clone()).is_ok()
        });
        if group.is_empty() {
            self.by_prefix.remove(prefix);
        }
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
        let mut slow = subscribers.add(Scope::default());
        let mut quick = subscribers.add(Scope::new("n", None, true));
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
            changes: subscribers.add(Scope::default()),
            revision: 0,
        };
        let mut taken = VecDeque::new();
        subscribers.tell(&change(1, "n/a"));
        assert!(subscription.take_waiting(&mut taken), "nothing was lost yet");
        for revision in 2..=i64::try_from(WAITING).expect("small") + 2 {
            subscribers.tell(&change(revision, "n/a"));
        }
        assert!(
            !subscription.take_waiting(&mut taken),
            "the last change did not fit"
        );
        assert_eq!(taken.len(), WAITING + 1);
    }

    #[tokio::test]
    async fn readers_are_told_of_their_scope_only() {
        let mut subscribers = Subscribers::new();
        let mut one = subscribers.add(Scope::new("n", Some("b"), true));
        let mut other = subscribers.add(Scope::new("m", None, true));
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
