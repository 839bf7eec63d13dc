//! Reads of the newest revisions, shared by those who ask at the same time.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use machinery_storage::{Store, StoreError};
use tokio::sync::oneshot;

use crate::ApiError;

/// Reads of the newest revisions of keys. One read of the store is under way at a time. Callers who ask
/// meanwhile share the next one, which begins after they have asked, so that it shows every write answered
/// before.
pub(super) struct SharedReads {
    store: Arc<dyn Store>,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    /// True while a task reads.
    reading: bool,
    /// Callers of the next reads. They are as many as requests that the server admits.
    waiting: VecDeque<Asked>,
}

struct Asked {
    key: String,
    reply: oneshot::Sender<Result<Newest, Arc<StoreError>>>,
}

/// Revisions at the time of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Newest {
    /// Revision of the store.
    pub(super) store: i64,
    /// Revision that last changed the key; `None` when it is absent.
    pub(super) key: Option<i64>,
}

impl SharedReads {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, queue: Arc::default() }
    }

    /// Returns the newest revisions of the store and of a key.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub(super) async fn newest(&self, key: &str) -> Result<Newest, ApiError> {
        let (reply, answer) = oneshot::channel();
        if self.ask(Asked { key: key.to_owned(), reply }) {
            // A task of its own: the first caller may go away, and the others wait for the same read.
            let (store, queue) = (self.store.clone(), self.queue.clone());
            tokio::spawn(Reader { store, queue, done: false }.run());
        }
        let answer = answer.await.map_err(|_| unavailable("the read was given up"))?;
        Ok(answer.map_err(unavailable)?)
    }

    /// Adds a caller. Returns true when nobody reads, so that a reader must be started.
    fn ask(&self, asked: Asked) -> bool {
        let mut queue = lock(&self.queue);
        queue.waiting.push_back(asked);
        !std::mem::replace(&mut queue.reading, true)
    }
}

fn unavailable(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::Unavailable { action: "get", source: source.into() }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Task that reads for all who wait. When it ends early, they learn that nobody reads.
struct Reader {
    store: Arc<dyn Store>,
    queue: Arc<Mutex<Queue>>,
    /// True when nobody waited any more.
    done: bool,
}

impl Reader {
    async fn run(mut self) {
        while let Some(batch) = self.next() {
            let (keys, replies): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|asked| (asked.key, asked.reply)).unzip();
            match self.store.revisions(&keys).await {
                Ok(read) => {
                    for (reply, key) in replies.into_iter().zip(read.of) {
                        // A caller who has gone away needs no reply.
                        let _ = reply.send(Ok(Newest { store: read.revision, key }));
                    }
                }
                Err(error) => {
                    let error = Arc::new(error);
                    for reply in replies {
                        let _ = reply.send(Err(error.clone()));
                    }
                }
            }
        }
        self.done = true;
    }

    /// Returns the callers of the next read; `None` when nobody waits.
    fn next(&self) -> Option<Vec<Asked>> {
        let mut queue = lock(&self.queue);
        let most = queue.waiting.len().min(machinery_storage::MAX_KEYS);
        let batch: Vec<_> = queue.waiting.drain(..most).collect();
        queue.reading = !batch.is_empty();
        queue.reading.then_some(batch)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !self.done {
            let mut queue = lock(&self.queue);
            queue.reading = false;
            queue.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use futures::future::join_all;
    use machinery_storage::{History, Outcome, Page, Range, Read, Revisions, Transaction, WatchStream};
    use tokio::sync::Semaphore;

    use super::*;

    /// Store that answers when the test lets it, and notes what it was asked for.
    struct HeldStore {
        permits: Semaphore,
        asked: Mutex<Vec<Vec<String>>>,
        down: bool,
    }

    fn held(down: bool) -> Arc<HeldStore> {
        Arc::new(HeldStore { permits: Semaphore::new(0), asked: Mutex::default(), down })
    }

    fn not_asked() -> StoreError {
        unavailable("no test needs it")
    }

    #[async_trait]
    impl Store for HeldStore {
        async fn revisions(&self, keys: &[String]) -> Result<Revisions, StoreError> {
            let reads = {
                let mut asked = self.asked.lock().expect("asked");
                asked.push(keys.to_vec());
                asked.len()
            };
            self.permits.acquire().await.expect("open").forget();
            if self.down {
                return Err(unavailable("it is down"));
            }
            let revision = i64::try_from(reads).expect("few");
            Ok(Revisions {
                revision,
                of: keys.iter().map(|key| key.strip_prefix('k')?.parse().ok()).collect(),
            })
        }

        async fn get(&self, _: &str) -> Result<Read, StoreError> {
            Err(not_asked())
        }

        async fn list(&self, _: &Range) -> Result<Page, StoreError> {
            Err(not_asked())
        }

        async fn commit(&self, _: Transaction) -> Result<Outcome, StoreError> {
            Err(not_asked())
        }

        async fn watch(&self, _: &str, _: i64) -> Result<WatchStream, StoreError> {
            Err(not_asked())
        }

        async fn request_progress(&self) -> Result<(), StoreError> {
            Err(not_asked())
        }

        async fn compact(&self, _: i64) -> Result<(), StoreError> {
            Err(not_asked())
        }

        fn history(&self) -> History {
            History::only()
        }

        async fn ready(&self) -> Result<(), StoreError> {
            Err(not_asked())
        }
    }

    #[tokio::test]
    async fn callers_who_ask_during_a_read_share_the_next_one_and_get_the_revisions_of_their_keys() {
        let store = held(false);
        let reads = SharedReads::new(store.clone());
        let calls = (0..250).map(|number| {
            let (reads, name) = (&reads, if number == 7 { "none".to_owned() } else { format!("k{number}") });
            async move { reads.newest(&name).await.expect("an answer") }
        });
        store.permits.add_permits(10);
        let answers = join_all(calls).await;
        let sizes: Vec<usize> = store.asked.lock().expect("asked").iter().map(Vec::len).collect();
        assert_eq!(sizes.iter().sum::<usize>(), 250);
        assert!(
            sizes.len() <= 4 && sizes.iter().all(|size| *size <= machinery_storage::MAX_KEYS),
            "{sizes:?}"
        );
        for (number, answer) in (0..).zip(answers) {
            assert_eq!(answer.key, (number != 7).then_some(number));
        }
    }

    #[tokio::test]
    async fn a_read_that_began_before_a_caller_asked_does_not_answer_it() {
        let store = held(false);
        let reads = Arc::new(SharedReads::new(store.clone()));
        let ask = || {
            let reads = reads.clone();
            tokio::spawn(async move { reads.newest("k1").await.expect("an answer").store })
        };
        let first = ask();
        while store.asked.lock().expect("asked").is_empty() {
            tokio::task::yield_now().await;
        }
        let (second, third) = (ask(), ask());
        tokio::task::yield_now().await;
        store.permits.add_permits(2);
        assert_eq!(first.await.expect("a read"), 1);
        assert_eq!((second.await.expect("a read"), third.await.expect("a read")), (2, 2));
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_keeps_nobody_from_an_answer() {
        let store = held(false);
        let reads = SharedReads::new(store.clone());
        {
            let gone = reads.newest("k1");
            assert!(futures::poll!(std::pin::pin!(gone)).is_pending());
        }
        store.permits.add_permits(2);
        assert_eq!(reads.newest("k2").await.expect("an answer").key, Some(2));
    }

    #[tokio::test]
    async fn a_failure_is_told_to_all_and_the_next_caller_is_read_for_again() {
        let store = held(true);
        store.permits.add_permits(10);
        let reads = SharedReads::new(store.clone());
        for result in join_all([reads.newest("k1"), reads.newest("k2"), reads.newest("k3")]).await {
            let error = result.expect_err("it is down");
            assert_eq!(error.reason(), crate::Reason::ServiceUnavailable, "{error}");
        }
        reads.newest("k4").await.expect_err("it is down");
    }
}
