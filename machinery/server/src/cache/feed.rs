//! Keeps the cache in step with the store.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use machinery_storage::{KeyValue, Range, Store, StoreError, WatchEvent};
use rand::RngExt;
use tokio_util::sync::CancellationToken;

use super::{Cache, cursor::Cursor, index::Contents};
use crate::{Object, stored::Stored, version::Versions};

/// Number of objects that are read at once when the cache is filled. It is small, because objects may be
/// large: a page is in memory as a whole, beside the objects of the pages before.
const PAGE: usize = 100;
/// Interval between requests for progress. The cache needs them when others write to the same store.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
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
}

/// Fills the cache and keeps it in step with the store until `shutdown`. Errors are logged and retried.
pub(crate) async fn feed<O: Object>(
    cache: Arc<Cache<O>>,
    versions: Arc<Versions<O>>,
    store: Arc<dyn Store>,
    prefix: String,
    shutdown: CancellationToken,
) {
    let mut feed = Feed { cache, versions, store, prefix, cursor: None, backoff: BACKOFF.0 };
    shutdown.run_until_cancelled(feed.run()).await;
}

struct Feed<O> {
    cache: Arc<Cache<O>>,
    versions: Arc<Versions<O>>,
    store: Arc<dyn Store>,
    prefix: String,
    /// `None` when the cache must be filled.
    cursor: Option<Cursor>,
    backoff: Duration,
}

impl<O: Object> Feed<O> {
    async fn run(&mut self) {
        loop {
            let Err(end) = self.round().await;
            match end {
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
        let mut cursor = match self.cursor.take() {
            Some(cursor) => cursor,
            None => Cursor::complete(self.fill().await.map_err(end)?),
        };
        let result = self.follow(&mut cursor).await;
        self.cursor = Some(cursor);
        result
    }

    /// Reads all objects, at one revision.
    async fn fill(&mut self) -> Result<i64, StoreError> {
        let mut contents = Contents::new();
        let mut range = Range { prefix: self.prefix.clone(), limit: PAGE, ..Range::default() };
        loop {
            let page = self.store.list(&range).await?;
            range.at_revision = Some(page.revision);
            range.after = page.items.last().map(|last| last.key.clone());
            for item in &page.items {
                let Some(key) = self.relative(&item.key) else {
                    continue;
                };
                match self.decode(item) {
                    Some(object) => drop(contents.objects.insert(key.into(), object)),
                    None => drop(contents.unreadable.insert(key.to_owned())),
                }
            }
            if page.remaining == 0 || page.items.is_empty() {
                tracing::debug!(
                    prefix = self.prefix,
                    revision = page.revision,
                    objects = contents.objects.len(),
                    "filled"
                );
                self.cache.replace(page.revision, contents);
                return Ok(page.revision);
            }
        }
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
        let current = if removed { None } else { self.decode(&item) };
        if removed || current.is_some() {
            self.cache.apply(revision, key, current);
        } else {
            self.cache.lose(revision, key);
        }
    }

    /// Decodes an object. A failure is logged.
    fn decode(&self, item: &KeyValue) -> Option<Arc<Stored<O>>> {
        match self.versions.read(item) {
            Ok(stored) => Some(Arc::new(stored)),
            Err(error) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                tracing::error!(
                    key = item.key,
                    source,
                    "stored object cannot be decoded: its lists and watches fail until it can be, or is removed"
                );
                None
            }
        }
    }

    fn relative<'a>(&self, key: &'a str) -> Option<&'a str> {
        key.strip_prefix(&self.prefix)
    }
}

fn end(error: StoreError) -> End {
    match error {
        StoreError::Compacted { .. } => End::Lost,
        error => End::Broken(error),
    }
}

fn silence() -> StoreError {
    StoreError::Unavailable { action: "report progress", source: "the watch is silent".into() }
}

fn ended() -> StoreError {
    StoreError::Unavailable { action: "go on with a watch", source: "the stream ended".into() }
}
