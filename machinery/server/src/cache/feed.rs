//! Keeps the cache in step with the store.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::StreamExt;
use machinery_storage::{History, KeyValue, Range, Store, StoreError, WatchEvent};
use rand::RngExt;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{Cache, cursor::Cursor, entry::Entry, index::Contents};
use crate::{ApiError, Object, stored::Stored, version::Versions};

/// Size of the objects that are read at once when the cache is filled, about, judged by the page before. A
/// page is in memory as a whole, beside the objects of the pages before.
const PAGE_BYTES: usize = 1024 * 1024;
/// Least and greatest number of objects that are read at once. The first page has the least. For each page
/// etcd counts all keys behind it, so small pages of many objects take most of a start. The greatest bounds
/// a page of large objects after small ones; after a failure all have the least.
const PAGE: (usize, usize) = (100, 500);
/// Interval between requests for progress. The cache needs them when others write to the same store.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// Maximum number of pages that are decoded while the next one is read.
const PAGES_AT_ONCE: usize = 2;
/// Maximum silence of a watch before it is resumed.
const SILENCE: Duration = Duration::from_secs(45);
/// First and longest wait after an error.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Reason for the end of a round of reading.
enum End {
    /// The watch can be resumed where it broke.
    Broken(StoreError),
    /// The missed changes were compacted: the cache must be filled again.
    Lost,
    /// The store went back: nothing that was read before is true.
    WentBack,
}

/// Object of a page, relative to the prefix of its kind.
struct Decoded<O> {
    key: String,
    /// Object, or the stand-in of one that this version of the server cannot read.
    entry: Option<Arc<Entry<O>>>,
    is_readable: bool,
}

/// Fills the cache and keeps it in step with the store until `shutdown`. Errors are logged and retried.
pub(crate) async fn feed<O: Object>(
    cache: Arc<Cache<O>>,
    versions: Arc<Versions<O>>,
    store: Arc<dyn Store>,
    prefix: String,
    shutdown: CancellationToken,
) {
    let history = store.history();
    let followed = cache.shown_history();
    let cursor = None;
    let (largest_page, backoff) = (PAGE.1, BACKOFF.0);
    let mut feed = Feed { cache, versions, store, prefix, history, followed, cursor, largest_page, backoff };
    shutdown.run_until_cancelled(feed.run()).await;
}

struct Feed<O> {
    cache: Arc<Cache<O>>,
    versions: Arc<Versions<O>>,
    store: Arc<dyn Store>,
    prefix: String,
    history: History,
    /// Number of the history that the cursor and the cache belong to.
    followed: u64,
    /// `None` when the cache must be filled.
    cursor: Option<Cursor>,
    largest_page: usize,
    backoff: Duration,
}

impl<O: Object> Feed<O> {
    async fn run(&mut self) {
        loop {
            let Err(end) = self.round().await;
            // A call or a watch can fail because the store went back.
            let end = if self.history.number() == self.followed { end } else { End::WentBack };
            match end {
                End::WentBack => {
                    tracing::warn!(
                        prefix = self.prefix,
                        "watch cache: the store went back, filling it again and ending its watches"
                    );
                    self.cursor = None;
                    self.followed = self.history.number();
                    self.cache.go_back(self.followed);
                    self.backoff = BACKOFF.0;
                }
                End::Lost => {
                    tracing::warn!(
                        prefix = self.prefix,
                        "watch cache: changes were compacted, filling it again"
                    );
                    self.cursor = None;
                }
                End::Broken(error) => {
                    let source = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::warn!(prefix = self.prefix, %error, source, "watch cache: the store's watch ended");
                }
            }
            let jitter = rand::rng().random_range(0.5..1.0);
            tokio::time::sleep(self.backoff.mul_f64(jitter)).await;
            self.backoff = (self.backoff * 2).min(BACKOFF.1);
        }
    }

    async fn round(&mut self) -> Result<std::convert::Infallible, End> {
        let mut cursor = if let Some(cursor) = self.cursor.take() {
            cursor
        } else {
            let filled = self.fill().await;
            self.largest_page = if filled.is_ok() { PAGE.1 } else { PAGE.0 };
            let revision = filled.map_err(end)?;
            Cursor::complete(revision)
        };
        let result = self.follow(&mut cursor).await;
        self.cursor = Some(cursor);
        result
    }

    /// Reads all objects, at one revision. A page is decoded while the next one is read.
    async fn fill(&mut self) -> Result<i64, StoreError> {
        let mut contents = Contents::new();
        let mut range = Range { prefix: self.prefix.clone(), limit: PAGE.0, ..Range::default() };
        let mut decoding = VecDeque::new();
        let mut add = |decoded: Vec<Decoded<O>>| {
            for Decoded { key, entry, is_readable } in decoded {
                if let Some(entry) = entry {
                    contents.objects.insert(entry.key().clone(), entry);
                }
                if !is_readable {
                    contents.unreadable.insert(key);
                }
            }
        };
        let revision = loop {
            let page = self.store.list(&range).await?;
            range.at_revision = Some(page.revision);
            range.after = page.items.last().map(|last| last.key.clone());
            range.limit = page_limit(&page.items).min(self.largest_page);
            let is_last = page.remaining == 0 || page.items.is_empty();
            decoding.push_back(self.decode_page(page.items));
            while decoding.len() > if is_last { 0 } else { PAGES_AT_ONCE } {
                let Some(page) = decoding.pop_front() else { break };
                add(page.await.map_err(stopped)?);
            }
            if is_last {
                break page.revision;
            }
        };
        if self.history.number() != self.followed {
            return Err(changed_history());
        }
        tracing::debug!(prefix = self.prefix, revision, objects = contents.objects.len(), "filled");
        self.cache.replace(revision, contents);
        Ok(revision)
    }

    /// Decodes the objects of a page on another thread.
    fn decode_page(&self, items: Vec<KeyValue>) -> JoinHandle<Vec<Decoded<O>>> {
        let (cache, versions, prefix) = (self.cache.clone(), self.versions.clone(), self.prefix.clone());
        tokio::task::spawn_blocking(move || {
            let decode = |item: &KeyValue| {
                let key = item.key.strip_prefix(&prefix)?;
                let entry = decode(&versions, item).and_then(|stored| kept(&cache, key, &stored));
                let is_readable = entry.is_some();
                let entry = entry.or_else(|| cache.stand_in(key, item.mod_revision));
                Some(Decoded { key: key.to_owned(), entry, is_readable })
            };
            items.iter().filter_map(decode).collect()
        })
    }

    async fn follow(&mut self, cursor: &mut Cursor) -> Result<std::convert::Infallible, End> {
        let mut stream = self.store.watch(&self.prefix, cursor.resume_after()).await.map_err(end)?;
        self.cache.hear();
        let mut progress = tokio::time::interval(PROGRESS_EVERY);
        let mut silent_until = tokio::time::Instant::now() + SILENCE;
        loop {
            let event = tokio::select! {
                event = stream.next() => event,
                _ = progress.tick() => {
                    self.store.request_progress().await.map_err(end)?;
                    continue;
                }
                () = self.history.differs_from(self.followed) => return Err(End::WentBack),
                () = tokio::time::sleep_until(silent_until) => return Err(End::Broken(silence())),
            };
            match event {
                Some(Ok(event)) => {
                    self.cache.hear();
                    self.take(cursor, event);
                }
                Some(Err(error)) => return Err(end(error)),
                None => return Err(End::Broken(ended())),
            }
            silent_until = tokio::time::Instant::now() + SILENCE;
            self.backoff = BACKOFF.0;
        }
    }

    fn take(&self, cursor: &mut Cursor, event: WatchEvent) {
        let (revision, item, removed) = match event {
            WatchEvent::Progress(revision) => {
                cursor.progress(revision);
                self.cache.progress(revision);
                return;
            }
            WatchEvent::Put { current, .. } => (current.mod_revision, current, false),
            WatchEvent::Delete { revision, previous } => (revision, previous, true),
        };
        let Some(key) = self.relative(&item.key) else {
            return;
        };
        if !cursor.advance(revision, key) {
            return;
        }
        let current = if removed { None } else { self.decode_change(key, &item) };
        if removed || current.is_some() {
            self.cache.apply(revision, key, current);
        } else {
            self.cache.lose(revision, key);
        }
    }

    /// Decodes an object that was written just now, unless it was written here: then it is still known.
    fn decode_change(&self, key: &str, item: &KeyValue) -> Option<Arc<Entry<O>>> {
        let written_here = self.cache.recall(key, item.mod_revision);
        let known = written_here.filter(|stored| stored.size() == item.value.len());
        let stored = if let Some(stored) = known {
            stored
        } else {
            let stored = Arc::new(decode(&self.versions, item)?);
            self.cache.remember(key, &stored);
            stored
        };
        kept(&self.cache, key, &stored)
    }

    fn relative<'a>(&self, key: &'a str) -> Option<&'a str> {
        key.strip_prefix(&self.prefix)
    }
}

/// Returns the number of objects to read at once after a page.
fn page_limit(page: &[KeyValue]) -> usize {
    let size: usize = page.iter().map(|item| item.value.len()).sum();
    (PAGE_BYTES * page.len() / size.max(1)).clamp(PAGE.0, PAGE.1)
}

/// Decodes an object. A failure is logged.
fn decode<O: Object>(versions: &Versions<O>, item: &KeyValue) -> Option<Stored<O>> {
    versions.read(item).map_err(|error| log_undecodable(&item.key, &error)).ok()
}

/// Returns a decoded object as the cache keeps it. A failure is logged.
fn kept<O: Object>(cache: &Cache<O>, key: &str, stored: &Stored<O>) -> Option<Arc<Entry<O>>> {
    cache.entry(key, stored).map_err(|error| log_undecodable(key, &error)).ok()
}

fn log_undecodable(key: &str, error: &ApiError) {
    let source = std::error::Error::source(error).map(ToString::to_string);
    tracing::error!(
        key,
        source,
        "stored object cannot be decoded: its lists and watches fail until it can be, or is removed"
    );
}

fn end(error: StoreError) -> End {
    match error {
        StoreError::Compacted { .. } => End::Lost,
        error => End::Broken(error),
    }
}

fn stopped(error: JoinError) -> StoreError {
    StoreError::Unavailable { action: "decode the objects", source: error.into() }
}

fn changed_history() -> StoreError {
    StoreError::Unavailable { action: "fill the cache", source: "the store went back".into() }
}

fn silence() -> StoreError {
    StoreError::Unavailable { action: "report progress", source: "the watch is silent".into() }
}

fn ended() -> StoreError {
    StoreError::Unavailable { action: "go on with a watch", source: "the stream ended".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_large_when_the_objects_of_this_one_are_small() {
        let item = |size: usize| KeyValue {
            key: "n/a".to_owned(),
            value: vec![0; size].into(),
            create_revision: 1,
            mod_revision: 1,
        };
        let cases = [(0, 500), (1000, 500), (4 * 1024, 256), (16 * 1024, 100), (300 * 1024, 100)];
        for (size, limit) in cases {
            assert_eq!(page_limit(&[item(size), item(size)]), limit, "{size} bytes each");
        }
        assert_eq!(page_limit(&[]), 100);
    }
}
