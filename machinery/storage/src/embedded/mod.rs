//! The store in a file of this process.

mod options;
mod read;
mod schema;
mod tables;
mod watch;
mod writer;

use std::{
    collections::VecDeque, error::Error, fs::File, path::Path, sync::Arc, thread::JoinHandle, time::Duration,
};

use async_trait::async_trait;
use redb::{Database, ReadableTable};
use tokio::{
    sync::{broadcast, mpsc, oneshot},
    task::spawn_blocking,
    time::timeout,
};

pub use self::options::EmbeddedOptions;
use self::{
    schema::{COMPACTED, CURRENT, FIRST_REVISION, HISTORY, NUMBERS, REVISION},
    watch::{News, Watch},
    writer::{Command, Reply},
};
use crate::{
    History, Operation, Outcome, Page, Range, Read, Revisions, Store, StoreError, Transaction, WatchStream,
};

/// Number of commits that a watch may lag behind before it reads the history again.
const NEWS: usize = 1_024;

/// Maximum number of commands that wait for the writer.
const QUEUE: usize = 4_096;

/// The store in a file, for one server without replicas.
///
/// # Guarantees
///
/// A reported commit is on the disk, and survives the end of the process and of the machine. Concurrent
/// commits share one sync. Reads do not wait for writes. The file holds the history, too, so watches resume
/// across a restart.
///
/// # Caveats
///
/// One process can have the file open. Dropping the store waits for the commit that is under way, and ends
/// its watches.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    commands: Option<mpsc::Sender<Command>>,
    writer: Option<JoinHandle<()>>,
    max_value_bytes: usize,
}

struct Shared {
    database: Database,
    news: broadcast::Sender<News>,
    timeout: Duration,
}

impl EmbeddedStore {
    /// Opens the file, or creates it. After a crash, opening includes a check. The check takes about a second
    /// for some hundred megabytes.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] when the file cannot be opened, is not such a store or is open already.
    pub async fn open(options: EmbeddedOptions) -> Result<Self, StoreError> {
        let path = options.path.clone();
        let cache_bytes = options.cache_bytes;
        let database = spawn_blocking(move || create(&path, cache_bytes))
            .await
            .map_err(|error| unavailable("open", error))?
            .map_err(|error| unavailable("open", error))?;
        let shared = Arc::new(Shared {
            database,
            news: broadcast::Sender::new(NEWS),
            timeout: options.request_timeout,
        });
        let (commands, received) = mpsc::channel(QUEUE);
        let max_value_bytes = options.max_value_bytes;
        let writer = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn({
                let shared = shared.clone();
                move || writer::run(&shared, &options, received)
            })
            .map_err(|error| unavailable("open", error))?;
        Ok(Self { shared, commands: Some(commands), writer: Some(writer), max_value_bytes })
    }

    async fn ask<T>(
        &self,
        action: &'static str,
        command: impl FnOnce(Reply<T>) -> Command,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let command = command(reply);
        let closed = || unavailable(action, "the store is closed");
        let commands = self.commands.as_ref().ok_or_else(closed)?;
        let asked = async {
            commands.send(command).await.map_err(|_| closed())?;
            answer.await.map_err(|_| closed())?
        };
        timeout(self.shared.timeout, asked).await.map_err(|elapsed| unavailable(action, elapsed))?
    }
}

fn create(path: &Path, cache_bytes: usize) -> Result<Database, redb::Error> {
    let database = Database::builder().set_cache_size(cache_bytes).create(path)?;
    let write = database.begin_write()?;
    {
        write.open_table(CURRENT)?;
        write.open_table(HISTORY)?;
        let mut numbers = write.open_table(NUMBERS)?;
        for name in [REVISION, COMPACTED] {
            if numbers.get(name)?.is_none() {
                numbers.insert(name, FIRST_REVISION)?;
            }
        }
    }
    write.commit()?;
    // The file's name is durable only when its folder is.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(database)
}

fn unavailable(action: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
    StoreError::Unavailable { action, source: source.into() }
}

impl Shared {
    /// Runs a blocking function on a thread where it delays no other task.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        action: &'static str,
        work: impl FnOnce(&Self) -> Result<T, redb::Error> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.clone();
        timeout(self.timeout, spawn_blocking(move || work(&shared)))
            .await
            .map_err(|elapsed| unavailable(action, elapsed))?
            .map_err(|error| unavailable(action, error))?
            .map_err(|error| unavailable(action, error))
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(writer) = self.writer.take() {
            // It panics nowhere; if it did, there would be nothing to be done about it here.
            drop(writer.join());
        }
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn get(&self, key: &str) -> Result<Read, StoreError> {
        let key = key.to_owned();
        self.shared.blocking("get", move |shared| shared.get(&key)).await
    }

    async fn revisions(&self, keys: &[String]) -> Result<Revisions, StoreError> {
        let keys = keys.to_vec();
        self.shared.blocking("get", move |shared| shared.revisions(&keys)).await
    }

    async fn list(&self, range: &Range) -> Result<Page, StoreError> {
        let range = range.clone();
        self.shared.blocking("list", move |shared| shared.list(&range)).await?
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome, StoreError> {
        for operation in &transaction.operations {
            if let Operation::Put(key, value) = operation
                && value.len() > self.max_value_bytes
            {
                return Err(StoreError::TooLarge { key: key.clone(), size: value.len() });
            }
        }
        self.ask("commit", |reply| Command::Commit(transaction, reply)).await
    }

    async fn watch(&self, prefix: &str, after_revision: i64) -> Result<WatchStream, StoreError> {
        // Listening starts before the history is read, so that nothing falls between the two.
        let news = self.shared.news.subscribe();
        let span = self.shared.blocking("watch", Shared::span).await?;
        span.check(after_revision)?;
        let watch = Watch {
            shared: self.shared.clone(),
            prefix: prefix.to_owned(),
            news,
            ready: VecDeque::new(),
            seen: after_revision,
            behind: after_revision < span.revision,
        };
        Ok(watch.into_stream())
    }

    async fn request_progress(&self) -> Result<(), StoreError> {
        // An error means that there is no watch.
        drop(self.shared.news.send(News::Progress));
        Ok(())
    }

    async fn compact(&self, revision: i64) -> Result<(), StoreError> {
        self.ask("compact", |reply| Command::Compact(revision, reply)).await
    }

    /// The process holds the file: what is copied over it is read after the next start.
    fn history(&self) -> History {
        History::only()
    }

    async fn ready(&self) -> Result<(), StoreError> {
        if self.commands.as_ref().is_none_or(mpsc::Sender::is_closed) {
            return Err(unavailable("answer", "nothing is written any more"));
        }
        self.shared.blocking("answer", Shared::span).await.map(|_| ())
    }
}
