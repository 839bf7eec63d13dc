//! Regular writes to the store, so that every reply can tell since when the store takes none.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use machinery_storage::{Operation, Store, StoreError, Transaction};
use tokio_util::sync::CancellationToken;

/// Pause between two writes.
const EVERY: Duration = Duration::from_secs(1);
/// Key that is written. It belongs to no kind: the name of a group has a dot.
const KEY: &str = "/write-probe";

/// Writes one key of the store again and again.
///
/// A store can answer reads and take no writes: an etcd without space does. Clients then cannot write either,
/// and see no reason in what they read.
pub(crate) struct WriteProbe {
    store: Arc<dyn Store>,
    last: Mutex<Option<DateTime<Utc>>>,
}

impl WriteProbe {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, last: Mutex::default() }
    }

    /// Writes until `shutdown`.
    pub(crate) async fn run(&self, shutdown: &CancellationToken) {
        let mut failing = false;
        loop {
            let Some(written) = shutdown.run_until_cancelled(self.write()).await else { return };
            match &written {
                Ok(()) if failing => tracing::info!("the store takes writes again"),
                Err(error) if !failing => tracing::warn!(%error, "the store takes no writes"),
                Ok(()) | Err(_) => {}
            }
            failing = written.is_err();
            if shutdown.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
                return;
            }
        }
    }

    /// Writes once.
    async fn write(&self) -> Result<(), StoreError> {
        let began = Utc::now();
        let put = Operation::Put(KEY.to_owned(), Bytes::from(text(began)));
        self.store.commit(Transaction { preconditions: Vec::new(), operations: vec![put] }).await?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(began);
        Ok(())
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
