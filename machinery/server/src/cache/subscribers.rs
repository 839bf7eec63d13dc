//! Subscribers to the changes of a kind.

use std::{collections::HashMap, sync::Arc};

use super::{
    change::Change,
    group::{FieldValue, Group, Subscriber},
    queue::{Backlog, Receiver, queue},
    scope::Scope,
};
use crate::Object;

/// Subscribers to changes, grouped by what they read: all objects, a namespace, or one object, and by the
/// only value of a field that they see. A change costs nothing to the readers of other namespaces, objects
/// and values.
#[derive(Debug)]
pub(crate) struct Subscribers<O> {
    /// By the part of the keys that they read, see [`Scope::part`].
    by_part: HashMap<String, Group<O>>,
    next: u64,
    count: usize,
    /// Number of readers that were ended because they fell behind.
    behind: u64,
    backlog: Backlog,
}

/// One subscriber, for [`Subscribers::remove`].
#[derive(Debug)]
pub(crate) struct Key {
    part: String,
    field: Option<FieldValue>,
    number: u64,
}

impl<O> Subscribers<O> {
    pub(crate) fn new() -> Self {
        Self { by_part: HashMap::new(), next: 0, count: 0, behind: 0, backlog: Backlog::default() }
    }

    /// Adds a reader of the changes in a scope, or of those to objects with one value of a field. Its queue
    /// is closed when the reader falls behind.
    pub(crate) fn add(&mut self, scope: Scope, field: Option<FieldValue>) -> (Key, Receiver<O>) {
        let (sender, receiver) = queue(&self.backlog);
        let key = Key { part: scope.part().to_owned(), field, number: self.next };
        self.next += 1;
        self.count += 1;
        let group = self.by_part.entry(key.part.clone()).or_default();
        group.insert(key.number, key.field.clone(), Subscriber { scope, sender });
        (key, receiver)
    }

    /// Removes a reader.
    pub(crate) fn remove(&mut self, key: &Key) {
        if let Some(group) = self.by_part.get_mut(&key.part) {
            if group.remove(key.number, key.field.as_ref()) {
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
        self.for_groups(key, |group| group.retain(|subscriber| !subscriber.scope.covers(key)));
    }

    /// Calls `thin` with each group that covers a key. It returns the number of readers that it removed.
    fn for_groups(&mut self, key: &str, thin: impl Fn(&mut Group<O>) -> usize) {
        let namespace = key.find('/').and_then(|slash| key.get(..=slash));
        for part in std::iter::once("").chain(namespace).chain(std::iter::once(key)) {
            let Some(group) = self.by_part.get_mut(part) else {
                continue;
            };
            self.count -= thin(group);
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
        assert_eq!(self.count, self.by_part.values().map(Group::len).sum::<usize>());
        self.count
    }
}

impl<O: Object> Subscribers<O> {
    /// Sends a change to the readers that may see it. Never waits.
    pub(crate) fn tell(&mut self, change: &Arc<Change<O>>) {
        let before = self.count;
        self.for_groups(&change.key, |group| {
            group.retain_of(change, |subscriber| {
                !subscriber.scope.covers(&change.key) || subscriber.sender.send(change, before)
            })
        });
        self.behind += u64::try_from(before - self.count).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::cache::testing::entry;

    /// Number of changes that fit a reader's queue.
    const WAITING: i64 = 1024;

    fn change(revision: i64, key: &str) -> Arc<Change<ConfigMap>> {
        Arc::new(Change::new(revision, key.into(), None, None))
    }

    /// A change of `n/a` from one colour to another; `None` for no object.
    fn painted(was: Option<&str>, is: Option<&str>) -> Arc<Change<ConfigMap>> {
        let [was, is] = [was, is].map(|colour| {
            let data = colour.map(|colour| [("colour".to_owned(), colour.to_owned())].into());
            data.map(|data| entry("n/a", 1, ConfigMap { data: Some(data), ..ConfigMap::default() }))
        });
        Arc::new(Change::new(2, "n/a".into(), is, was))
    }

    /// A reader's only colour.
    fn field(colour: &str) -> FieldValue {
        FieldValue { at: 0, value: colour.to_owned() }
    }

    #[tokio::test]
    async fn a_slow_reader_is_ended_and_the_others_go_on() {
        let mut subscribers = Subscribers::new();
        let (_, mut slow) = subscribers.add(Scope::default(), None);
        let (_, mut quick) = subscribers.add(Scope::new("n", None, true), None);
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

    #[test]
    fn a_change_is_not_even_shown_to_the_readers_of_other_objects_and_values() {
        let mut subscribers: Subscribers<ConfigMap> = Subscribers::new();
        let scopes = [("n", Some("a")), ("n", Some("b")), ("m", Some("a")), ("n", None), ("", None)];
        let fields = [None, Some(field("blue")), Some(field("red")), Some(field("green"))];
        let _kept: Vec<_> = scopes
            .iter()
            .flat_map(|(space, name)| fields.iter().map(|field| (Scope::new(space, *name, true), field)))
            .map(|(scope, field)| subscribers.add(scope, field.clone()))
            .collect();
        let shown = std::cell::RefCell::new(Vec::new());
        let change = painted(Some("blue"), Some("red"));
        subscribers.for_groups("n/a", |group| {
            group.retain_of(&change, |subscriber| {
                shown.borrow_mut().push(subscriber.scope.part().to_owned());
                true
            })
        });
        let three = |part| std::iter::repeat_n(part, 3);
        let expected: Vec<_> = three("").chain(three("n/")).chain(three("n/a")).collect();
        assert_eq!(shown.into_inner(), expected, "of all, of blue, and of red");
    }

    #[tokio::test]
    async fn a_reader_of_a_value_is_told_once_of_each_object_that_has_it_or_had_it() {
        let changes = [
            (None, Some("blue"), true),
            (None, Some("red"), false),
            (None, Some(""), false),
            (Some("blue"), Some("blue"), true),
            (Some("blue"), Some("red"), true),
            (Some("red"), Some("blue"), true),
            (Some("red"), Some("red"), false),
            (Some("blue"), None, true),
            (Some("red"), None, false),
        ];
        for (was, is, told) in changes {
            let mut subscribers = Subscribers::new();
            let (_, mut reader) = subscribers.add(Scope::new("n", None, true), Some(field("blue")));
            subscribers.tell(&painted(was, is));
            subscribers.end();
            let mut count = 0;
            while reader.recv().await.is_some() {
                count += 1;
            }
            assert_eq!(count, u32::from(told), "{was:?} {is:?}");
        }
    }

    #[test]
    fn the_readers_of_values_leave_nothing_behind() {
        let mut subscribers: Subscribers<ConfigMap> = Subscribers::new();
        let kept = ["blue", "blue", "red"].map(|value| subscribers.add(Scope::default(), Some(field(value))));
        assert_eq!(subscribers.len(), 3);
        let [(first, _first), (second, gone), (third, _third)] = kept;
        drop(gone);
        subscribers.remove(&first);
        subscribers.remove(&first);
        assert_eq!(subscribers.len(), 2);
        subscribers.tell(&painted(None, Some("blue")));
        assert_eq!((subscribers.len(), subscribers.behind()), (1, 1), "the second left unseen");
        subscribers.remove(&second);
        subscribers.remove(&third);
        assert_eq!((subscribers.len(), subscribers.by_part.len()), (0, 0));
        let (_, _reader) = subscribers.add(Scope::default(), Some(field("blue")));
        subscribers.end_of("n/a");
        assert_eq!(subscribers.by_part.len(), 0, "nobody knows the value of an object that cannot be read");
    }

    #[tokio::test]
    async fn readers_are_told_of_their_scope_only() {
        let mut subscribers = Subscribers::new();
        let (_, mut one) = subscribers.add(Scope::new("n", Some("b"), true), None);
        let (_, mut other) = subscribers.add(Scope::new("m", None, true), None);
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
