//! Work queue: the keys to reconsider, each with its time.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::Notify, time::Instant};

/// A queue of keys, each of which is worked on by one worker at a time.
///
/// # Guarantees
///
/// A key that is added while it is worked on comes up again once that is done. A key that is added twice
/// before it comes up comes up once. Keys come up in the order in which they were added or fell due. A closed
/// queue takes no keys, so that it does not grow while nobody works on them.
#[derive(Debug)]
pub(crate) struct WorkQueue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<K> {
    closed: bool,
    ready: VecDeque<K>,
    queued: HashSet<K>,
    working: HashSet<K>,
    again: HashSet<K>,
    due: HashMap<K, Instant>,
    by_time: BTreeSet<(Instant, K)>,
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        let state = State {
            closed: false,
            ready: VecDeque::new(),
            queued: HashSet::new(),
            working: HashSet::new(),
            again: HashSet::new(),
            due: HashMap::new(),
            by_time: BTreeSet::new(),
        };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }
}

impl<K: Clone + Eq + Hash + Ord> WorkQueue<K> {
    /// Forgets the keys that wait, and takes none until [`WorkQueue::open`].
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.ready = VecDeque::new();
        state.queued = HashSet::new();
        state.again = HashSet::new();
        state.due = HashMap::new();
        state.by_time = BTreeSet::new();
    }

    /// Takes keys again.
    pub(crate) fn open(&self) {
        self.lock().closed = false;
    }

    /// Returns true while the queue takes keys.
    pub(crate) fn is_open(&self) -> bool {
        !self.lock().closed
    }

    /// Lets a key come up at once.
    pub(crate) fn add(&self, key: K) {
        if self.lock().add(key) {
            self.changed.notify_one();
        }
    }

    /// Lets each of the keys come up at once.
    pub(crate) fn add_all(&self, keys: impl IntoIterator<Item = K>) {
        for key in keys {
            self.add(key);
        }
    }

    /// Lets a key come up at `time`, in place of any time that was named for it before.
    pub(crate) fn add_at(&self, key: K, time: Instant) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.unschedule(&key);
        state.due.insert(key.clone(), time);
        state.by_time.insert((time, key));
        drop(state);
        self.changed.notify_one();
    }

    /// Forgets the time that was named for a key.
    pub(crate) fn unschedule(&self, key: &K) {
        self.lock().unschedule(key);
    }

    /// Waits for the next key. Whoever gets it calls [`WorkQueue::done`].
    pub(crate) async fn next(&self) -> K {
        loop {
            let due = {
                let mut state = self.lock();
                state.promote(Instant::now());
                if let Some(key) = state.take() {
                    if !state.ready.is_empty() || !state.by_time.is_empty() {
                        self.changed.notify_one();
                    }
                    return key;
                }
                state.by_time.first().map(|(time, _)| *time)
            };
            match due {
                Some(time) => tokio::select! {
                    () = self.changed.notified() => {}
                    () = tokio::time::sleep_until(time) => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// Says that the work on a key is done.
    pub(crate) fn done(&self, key: &K) {
        let mut state = self.lock();
        state.working.remove(key);
        let again = state.again.remove(key) && state.add(key.clone());
        drop(state);
        if again {
            self.changed.notify_one();
        }
    }

    /// Says that the work on a key is done when it is dropped, also when the worker is aborted.
    pub(crate) fn working<'a>(&'a self, key: &'a K) -> Working<'a, K> {
        Working { queue: self, key }
    }

    /// Number of keys that wait for a worker.
    pub(crate) fn ready(&self) -> usize {
        self.lock().ready.len()
    }

    /// Number of keys that wait for their time.
    pub(crate) fn scheduled(&self) -> usize {
        self.lock().by_time.len()
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The work on a key: it is done when this is dropped.
#[derive(Debug)]
pub(crate) struct Working<'a, K: Clone + Eq + Hash + Ord> {
    queue: &'a WorkQueue<K>,
    key: &'a K,
}

impl<K: Clone + Eq + Hash + Ord> Drop for Working<'_, K> {
    fn drop(&mut self) {
        self.queue.done(self.key);
    }
}

impl<K: Clone + Eq + Hash + Ord> State<K> {
    /// Adds a key. Returns true when a worker can take it.
    fn add(&mut self, key: K) -> bool {
        if self.closed {
            return false;
        }
        if self.working.contains(&key) {
            self.again.insert(key);
            return false;
        }
        let new = self.queued.insert(key.clone());
        if new {
            self.ready.push_back(key);
        }
        new
    }

    fn promote(&mut self, now: Instant) {
        while let Some((time, key)) = self.by_time.first().cloned() {
            if time > now {
                break;
            }
            self.unschedule(&key);
            self.add(key);
        }
    }

    fn unschedule(&mut self, key: &K) {
        if let Some(time) = self.due.remove(key) {
            self.by_time.remove(&(time, key.clone()));
        }
    }

    fn take(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        self.working.insert(key.clone());
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::time::timeout;

    use super::*;

    async fn none_comes(queue: &WorkQueue<&'static str>) {
        assert!(timeout(Duration::from_millis(1), queue.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_twice_comes_up_once() {
        let queue = WorkQueue::default();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!((queue.next().await, queue.next().await), ("a", "b"));
        none_comes(&queue).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_worked_on_by_one_worker_at_a_time_and_comes_up_again_afterwards() {
        let queue = WorkQueue::default();
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        none_comes(&queue).await;
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
        queue.done(&"a");
        none_comes(&queue).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_comes_up_at_its_time_and_the_last_time_named_counts() {
        let queue = WorkQueue::default();
        let start = Instant::now();
        queue.add_at("a", start + Duration::from_secs(5));
        queue.add_at("a", start + Duration::from_secs(9));
        queue.add_at("b", start + Duration::from_secs(7));
        assert_eq!(queue.next().await, "b");
        assert_eq!(start.elapsed(), Duration::from_secs(7));
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed(), Duration::from_secs(9));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_was_unscheduled_does_not_come_up() {
        let queue = WorkQueue::default();
        queue.add_at("a", Instant::now() + Duration::from_secs(1));
        queue.unschedule(&"a");
        assert!(timeout(Duration::from_secs(5), queue.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_queue_keeps_no_keys_and_takes_them_again_once_it_is_open() {
        let queue = WorkQueue::default();
        queue.add("working");
        let working = queue.next().await;
        for key in ["working", "ready"] {
            queue.add(key);
        }
        queue.add_at("due", Instant::now());
        queue.close();
        queue.add("added");
        queue.add_at("later", Instant::now());
        queue.done(&working);
        assert_eq!((queue.ready(), queue.scheduled()), (0, 0));
        none_comes(&queue).await;
        queue.open();
        queue.add("working");
        assert_eq!(queue.next().await, "working");
        none_comes(&queue).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_sooner_time_wakes_workers_that_already_wait_for_a_later_one() {
        let queue = Arc::new(WorkQueue::default());
        let start = Instant::now();
        queue.add_at("late", start + Duration::from_mins(1));
        let waiter = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.next().await }
        });
        tokio::task::yield_now().await;
        queue.add_at("soon", start + Duration::from_secs(1));
        assert_eq!(waiter.await.unwrap(), "soon");
        assert_eq!(start.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test]
    async fn many_workers_take_every_key_once() {
        let queue = Arc::new(WorkQueue::default());
        let taken = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..8 {
            tokio::spawn({
                let (queue, taken) = (Arc::clone(&queue), Arc::clone(&taken));
                async move {
                    loop {
                        let key: u32 = queue.next().await;
                        taken.lock().unwrap().push(key);
                        tokio::task::yield_now().await;
                        queue.done(&key);
                    }
                }
            });
        }
        for key in 0..500 {
            queue.add(key);
        }
        timeout(Duration::from_secs(10), async {
            while taken.lock().unwrap().len() < 500 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        let mut taken = taken.lock().unwrap().clone();
        taken.sort_unstable();
        assert_eq!(taken, (0..500).collect::<Vec<_>>());
    }
}
