//! The queue of changes for one reader, bounded in number and in bytes.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::mpsc::{self, error::TryRecvError};

use super::change::Change;
use crate::Object;

/// Maximum number of changes that wait for one reader.
const WAITING: usize = 1024;
/// Maximum size of the changes that wait for one reader.
const READER_BYTES: usize = 1024 * 1024;
/// Size of the changes that wait for all readers of a cache, from which on each reader has an equal share of
/// it only.
const ALL_BYTES: usize = 64 * 1024 * 1024;

/// Size of what waits for all readers of a cache. Beyond [`ALL_BYTES`] a reader holds its equal share, or one
/// change, so that it is at most twice that while no change is larger than a share. It is less in memory, for
/// readers share the changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Backlog(Arc<AtomicUsize>);

/// Size of what waits for one reader, as a part of the whole.
#[derive(Debug)]
struct Waiting {
    own: AtomicUsize,
    all: Backlog,
}

impl Waiting {
    fn add(&self, size: usize) {
        self.own.fetch_add(size, Ordering::Relaxed);
        self.all.0.fetch_add(size, Ordering::Relaxed);
    }

    fn remove(&self, size: usize) {
        self.own.fetch_sub(size, Ordering::Relaxed);
        self.all.0.fetch_sub(size, Ordering::Relaxed);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.own.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The cache's end of a queue.
#[derive(Debug)]
pub(super) struct Sender<O> {
    changes: mpsc::Sender<Arc<Change<O>>>,
    waiting: Arc<Waiting>,
}

/// The reader's end of a queue. It is closed when the reader falls behind.
#[derive(Debug)]
pub(crate) struct Receiver<O> {
    changes: mpsc::Receiver<Arc<Change<O>>>,
    waiting: Arc<Waiting>,
}

pub(super) fn queue<O>(all: &Backlog) -> (Sender<O>, Receiver<O>) {
    let (sender, receiver) = mpsc::channel(WAITING);
    let waiting = Arc::new(Waiting { own: AtomicUsize::new(0), all: all.clone() });
    (Sender { changes: sender, waiting: waiting.clone() }, Receiver { changes: receiver, waiting })
}

impl<O: Object> Sender<O> {
    /// Adds a change, unless the reader has left or is too far behind for one of `readers`. One change always
    /// fits.
    pub(super) fn send(&self, change: &Arc<Change<O>>, readers: usize) -> bool {
        let size = change.size();
        let own = self.waiting.own.load(Ordering::Relaxed);
        let all = self.waiting.all.0.load(Ordering::Relaxed);
        let limit = if all + size > ALL_BYTES { ALL_BYTES / readers.max(1) } else { READER_BYTES };
        if own > 0 && own + size > limit.min(READER_BYTES) {
            return false;
        }
        self.waiting.add(size);
        // When it fails, the queue ends, and with it what was counted.
        self.changes.try_send(change.clone()).is_ok()
    }
}

impl<O: Object> Receiver<O> {
    /// The next change; `None` at the end of the queue. Nothing is lost when the call is dropped.
    pub(crate) async fn recv(&mut self) -> Option<Arc<Change<O>>> {
        let change = self.changes.recv().await?;
        self.waiting.remove(change.size());
        Some(change)
    }

    /// The next change that waits.
    pub(crate) fn try_recv(&mut self) -> Result<Arc<Change<O>>, TryRecvError> {
        let change = self.changes.try_recv()?;
        self.waiting.remove(change.size());
        Ok(change)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::cache::testing::of_size;

    fn change(size: usize) -> Arc<Change<ConfigMap>> {
        Arc::new(Change::new(1, "n/a".into(), Some(of_size("n/a", 1, size)), None))
    }

    #[tokio::test]
    async fn a_reader_that_does_not_read_holds_a_mebibyte_and_is_then_ended() {
        let all = Backlog::default();
        let (sender, mut receiver) = queue(&all);
        let change = change(300 * 1024);
        for _ in 0..3 {
            assert!(sender.send(&change, 1));
        }
        assert!(!sender.send(&change, 1), "the fourth does not fit");
        receiver.recv().await.expect("a change");
        assert!(sender.send(&change, 1), "after one was read it does");
        drop((sender, receiver));
        assert_eq!(all.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_change_fits_whatever_its_size() {
        let (sender, _receiver) = queue(&Backlog::default());
        assert!(sender.send(&change(2 * READER_BYTES), 1));
        assert!(!sender.send(&change(1), 1));
    }

    #[test]
    fn when_all_readers_together_are_behind_those_that_are_far_behind_end() {
        let all = Backlog::default();
        let change = change(200 * 1024);
        let readers = 128;
        let queues: Vec<_> = (0..readers).map(|_| queue(&all)).collect();
        let sent = |at: usize| queues[at].0.send(&change, readers);
        for at in 0..readers / 2 {
            while sent(at) {}
        }
        assert!(all.0.load(Ordering::Relaxed) <= ALL_BYTES);
        for at in readers / 2..readers {
            assert!(sent(at), "a reader that keeps up is told");
            assert!(sent(at), "and of so much as is its share");
        }
        assert!(!sent(0), "one that is far behind is ended");
        for at in readers / 2..readers {
            while sent(at) {}
        }
        assert!(all.0.load(Ordering::Relaxed) <= 2 * ALL_BYTES);
    }

    #[test]
    fn however_many_readers_do_not_read_what_waits_for_them_is_bounded() {
        let all = Backlog::default();
        let change = change(200 * 1024);
        let readers = 256;
        let queues: Vec<_> = (0..readers).map(|_| queue(&all)).collect();
        for (sender, _) in &queues {
            while sender.send(&change, readers) {}
        }
        assert!(all.0.load(Ordering::Relaxed) <= 2 * ALL_BYTES);
    }
}
