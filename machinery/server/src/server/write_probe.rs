//! Regular writes to the store, which show since when the store takes none, and how far the clocks of its
//! servers differ.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use machinery_storage::{Operation, Range, Store, StoreError, Transaction};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::peer_clocks::PeerClocks;

/// Pause between two writes.
const EVERY: Duration = Duration::from_secs(1);
/// Prefix of the keys that are written, one for each server. They belong to no kind: the name of a group has
/// a dot.
const PREFIX: &str = "/write-probe/";

/// Writes a key of this server to the store every second, and reads those of the other servers.
///
/// A store can answer reads and take no writes: an etcd without space does. Clients then cannot write either,
/// and see no reason in what they read. The written times also show how far the servers' clocks differ.
pub(crate) struct WriteProbe {
    store: Arc<dyn Store>,
    /// Name of this process among the servers of the store.
    name: String,
    last: Mutex<Option<DateTime<Utc>>>,
    clocks: Mutex<PeerClocks>,
}

impl WriteProbe {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let name = Uuid::new_v4().to_string();
        Self { store, name, last: Mutex::default(), clocks: Mutex::default() }
    }

    /// Writes until `shutdown`.
    pub(crate) async fn run(&self, shutdown: &CancellationToken) {
        let (mut failing, mut agreed) = (false, true);
        loop {
            let Some(written) = shutdown.run_until_cancelled(self.write()).await else { return };
            match &written {
                Ok(()) if failing => tracing::info!("the store takes writes again"),
                Err(error) if !failing => tracing::warn!(%error, "the store takes no writes"),
                Ok(()) | Err(_) => {}
            }
            failing = written.is_err();
            if let Some(Err(error)) = shutdown.run_until_cancelled(self.compare()).await {
                tracing::debug!(%error, "the clocks of the other servers are not known");
            }
            let (agree, ahead) = (self.clocks_agree(), self.clock_ahead());
            if agree != agreed {
                tracing::warn!(
                    seconds_ahead = ahead,
                    ready = agree,
                    "compared with the other servers' clocks"
                );
            }
            agreed = agree;
            if shutdown.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
                return;
            }
        }
    }

    /// Writes once.
    async fn write(&self) -> Result<(), StoreError> {
        let began = Utc::now();
        let put = Operation::Put(format!("{PREFIX}{}", self.name), Bytes::from(text(began)));
        self.commit(put).await?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(began);
        Ok(())
    }

    /// Reads the keys of the other servers, and removes those of servers that ended.
    async fn compare(&self) -> Result<(), StoreError> {
        let page = self.store.list(&Range { prefix: PREFIX.to_owned(), ..Range::default() }).await?;
        let writes = page.items.iter().filter_map(|item| {
            let name = item.key.strip_prefix(PREFIX).filter(|name| *name != self.name)?;
            let time = DateTime::parse_from_rfc3339(std::str::from_utf8(&item.value).ok()?).ok()?;
            Some((name.to_owned(), time.to_utc()))
        });
        let gone = {
            let mut clocks = self.clocks();
            clocks.look(writes, Utc::now(), Instant::now());
            clocks.gone()
        };
        for name in gone {
            self.commit(Operation::Delete(format!("{PREFIX}{name}"))).await?;
        }
        Ok(())
    }

    async fn commit(&self, operation: Operation) -> Result<(), StoreError> {
        let transaction = Transaction { preconditions: Vec::new(), operations: vec![operation] };
        self.store.commit(transaction).await.map(|_| ())
    }

    fn clocks(&self) -> MutexGuard<'_, PeerClocks> {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true when the clock of this server is the one that the servers of the store agree on.
    pub(crate) fn clocks_agree(&self) -> bool {
        self.clocks().agree()
    }

    /// Seconds by which the clock of this server is ahead of the one that the servers agree on.
    pub(crate) fn clock_ahead(&self) -> f64 {
        self.clocks().ahead()
    }

    /// Time of the last write that the store took, by the clock of this server; `never` before the first.
    pub(crate) fn last(&self) -> String {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.map_or_else(|| "never".to_owned(), text)
    }
}

fn text(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}
