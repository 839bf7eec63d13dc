//! The queue between the watches and the withdrawal of entries.

mod queue;

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use evacuation_api::{Evacuation, GATEWAY_ENTRY_PREFIX};
use evacuation_protocol::is_finished;
use kube::{Resource, ResourceExt, runtime::watcher::Event};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

pub(crate) use self::queue::Key;
use self::queue::Queue;

/// Time after a write of an entry in which it is left alone. The controller that called has written its own
/// status by then.
pub(crate) const SETTLED: Duration = Duration::from_secs(5);

/// The Evacuations whose entries may have lost the interest of the pod's owner. The watches fill it.
#[derive(Debug, Default)]
pub(crate) struct Interests {
    queue: Mutex<Queue>,
    changed: Notify,
}

impl Interests {
    /// Takes an event of the watch of Evacuations.
    pub(crate) fn take_evacuation(&self, event: &Event<Evacuation>) {
        if let Event::Delete(object) = event {
            return self.forget(&key(object));
        }
        let (Event::Apply(object) | Event::InitApply(object)) = event else { return };
        let ended = object.status.as_ref().is_some_and(is_finished);
        let by_gateway =
            object.spec.requesters.iter().any(|entry| entry.name.starts_with(GATEWAY_ENTRY_PREFIX));
        if by_gateway && !ended {
            self.add(key(object), SETTLED);
        } else {
            self.forget(&key(object));
        }
    }

    /// Takes an event of the watch of a kind of owners.
    pub(crate) fn take_owner<K: Resource>(&self, event: &Event<K>) {
        let (Event::Apply(object) | Event::InitApply(object) | Event::Delete(object)) = event else { return };
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        if self.queue().add_of_owner(uid, Instant::now()) {
            self.changed.notify_one();
        }
    }

    /// Adds an Evacuation that is due after that time.
    pub(crate) fn add(&self, key: Key, delay: Duration) {
        self.queue().add(key, Instant::now() + delay);
        self.changed.notify_one();
    }

    /// Waits for Evacuations that are due, and takes them.
    pub(crate) async fn due(&self) -> HashSet<Key> {
        loop {
            let (taken, next) = {
                let mut queue = self.queue();
                (queue.take(Instant::now()), queue.next())
            };
            if !taken.is_empty() {
                return taken.into_iter().collect();
            }
            let changed = self.changed.notified();
            match next {
                Some(next) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(next) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Remembers the owner that the entries of an Evacuation follow.
    pub(crate) fn follow(&self, key: &Key, uid: &str) {
        self.queue().follow(key, uid);
    }

    /// Forgets an Evacuation without such entries.
    pub(crate) fn forget(&self, key: &Key) {
        self.queue().forget(key);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(object: &Evacuation) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}
