//! Store on etcd v3.4.31, v3.5.13 or newer. In older versions a watch may report progress beyond events that
//! it has not sent yet. A watch cache would then claim to have events that it misses.

mod choice;
mod connections;
mod convert;
mod error;
mod lineage;
mod options;
mod watch;

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use etcd_client::{CompactionOptions, GetOptions, KvClient, Txn, TxnOp, proto::PbResponseHeader};
use tokio::sync::watch as signal;

pub use self::options::{EtcdOptions, EtcdOptionsError, EtcdTls};
use self::{
    connections::Connections,
    convert::{KeyPrefix, last_change, revision, revisions},
    error::{Call, unavailable},
    lineage::{Lineage, Mark},
};
use crate::{
    History, Operation, Outcome, Page, Range, Read, Revisions, Store, StoreError, Transaction, WatchStream,
};

/// Store on etcd v3.4.31, v3.5.13 or newer. In older versions a watch may report progress beyond events that
/// it has not sent yet. A watch cache would then claim to have events that it misses.
///
/// # Caveats
///
/// The history of etcd grows until a client compacts it: the owner of the store calls [`Store::compact`] from
/// time to time. The store reads no files: the owner passes new certificates to [`EtcdStore::renew_tls`].
pub struct EtcdStore {
    connections: ArcSwap<Connections>,
    options: EtcdOptions,
    prefix: KeyPrefix,
    /// Counts the requests for progress; every watch listens.
    progress: signal::Sender<u64>,
    /// Replies of etcd so far, by which a restore is noticed.
    lineage: Arc<Lineage>,
}

impl EtcdStore {
    /// A store on that etcd. Connections are opened when they are used, so etcd need not be there yet:
    /// [`Store::ready`] tells.
    ///
    /// # Errors
    ///
    /// [`EtcdOptionsError`] when the options make no sense.
    pub async fn connect(options: EtcdOptions) -> Result<Self, EtcdOptionsError> {
        Ok(Self {
            connections: ArcSwap::from_pointee(Connections::new(&options).await?),
            prefix: KeyPrefix::new(&options.key_prefix),
            progress: signal::Sender::new(0),
            lineage: Arc::default(),
            options,
        })
    }

    /// Uses these certificates for every call and watch from now on. Calls in progress and open watches keep
    /// theirs.
    ///
    /// # Errors
    ///
    /// [`EtcdOptionsError`] when the certificates cannot be used; then the old ones are kept.
    pub async fn renew_tls(&self, tls: EtcdTls) -> Result<(), EtcdOptionsError> {
        let options = EtcdOptions { tls: Some(tls), ..self.options.clone() };
        self.connections.store(Arc::new(Connections::new(&options).await?));
        Ok(())
    }

    /// Returns the store's revision, agreed on by the members.
    ///
    /// # Errors
    ///
    /// etcd does not answer, or went back. The read looks for a write of this process, too.
    async fn revision(&self, action: &'static str) -> Result<i64, StoreError> {
        let (before, witness) = (self.lineage.mark(), self.lineage.witness());
        let response = self
            .connections
            .load_full()
            .read(Call::new(action), |mut client| {
                let key = self.prefix.on(witness.as_ref().map_or("/", |witness| &witness.key));
                async move { client.get(key, Some(GetOptions::new().with_keys_only())).await }
            })
            .await?
            .0;
        self.accept(action, before, response.header.as_ref())?;
        self.lineage
            .testify(before, witness.as_ref(), last_change(&response))
            .map_err(|sign| unavailable(action, sign))?;
        Ok(revision(response.header.as_ref()))
    }

    /// Compares a reply with the state that was known before its call.
    fn accept(
        &self,
        action: &'static str,
        before: Mark,
        header: Option<&PbResponseHeader>,
    ) -> Result<(), StoreError> {
        self.lineage.accept(before, header).map_err(|sign| unavailable(action, sign))
    }
}

/// Number of values that the first request of a whole prefix asks for.
const FIRST_PAGE: usize = 1_000;

/// Approximate size of the further requests, in bytes: large enough to be fast, small enough to be answered
/// in time.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

#[async_trait]
impl Store for EtcdStore {
    async fn get(&self, key: &str) -> Result<Read, StoreError> {
        let before = self.lineage.mark();
        let response = self
            .connections
            .load_full()
            .read(Call::new("get"), |mut client| {
                let key = self.prefix.on(key);
                async move { client.get(key, None).await }
            })
            .await?
            .0;
        self.accept("get", before, response.header.as_ref())?;
        Ok(Read {
            revision: revision(response.header.as_ref()),
            found: self.prefix.range(response).into_iter().next(),
        })
    }

    async fn revisions(&self, keys: &[String]) -> Result<Revisions, StoreError> {
        let (connections, before) = (self.connections.load_full(), self.lineage.mark());
        let options = GetOptions::new().with_keys_only();
        if let [key] = keys {
            let get = |mut client: KvClient| {
                let (key, options) = (self.prefix.on(key), options.clone());
                async move { client.get(key, Some(options)).await }
            };
            let response = connections.read(Call::new("get"), get).await?.0;
            self.accept("get", before, response.header.as_ref())?;
            let revision = revision(response.header.as_ref());
            return Ok(Revisions { revision, of: vec![last_change(&response)] });
        }
        let reads: Vec<TxnOp> =
            keys.iter().map(|key| TxnOp::get(self.prefix.on(key), Some(options.clone()))).collect();
        let txn = Txn::new().and_then(reads);
        let get = |mut client: KvClient| {
            let txn = txn.clone();
            async move { client.txn(txn).await }
        };
        let response = connections.read(Call::new("get"), get).await?.0;
        self.accept("get", before, response.header.as_ref())?;
        Ok(revisions(&response))
    }

    async fn list(&self, range: &Range) -> Result<Page, StoreError> {
        let end = self.prefix.end(&range.prefix);
        let mut start = match &range.after {
            Some(after) if after.as_str() >= range.prefix.as_str() => self.prefix.after(after),
            _ => self.prefix.on(&range.prefix),
        };
        let wanted = if range.limit == 0 { usize::MAX } else { range.limit };
        let mut page = Page { revision: range.at_revision.unwrap_or(0), ..Page::default() };
        let mut chunk = FIRST_PAGE;
        let before = self.lineage.mark();
        loop {
            let limit = chunk.min(wanted - page.items.len());
            let options = GetOptions::new()
                .with_range(end.clone())
                .with_limit(i64::try_from(limit).unwrap_or(i64::MAX))
                .with_revision(page.revision);
            let response = self
                .connections
                .load_full()
                .read(Call::at("list", page.revision), |mut client| {
                    let (start, options) = (start.clone(), options.clone());
                    async move { client.get(start, Some(options)).await }
                })
                .await?
                .0;
            self.accept("list", before, response.header.as_ref())?;
            if page.revision == 0 {
                page.revision = revision(response.header.as_ref());
            }
            let found = usize::try_from(response.count).unwrap_or(0);
            let bytes: usize = response.kvs.iter().map(|found| found.value.len()).sum();
            let items = self.prefix.range(response);
            page.remaining = found.saturating_sub(items.len());
            let Some(last) = items.last() else { return Ok(page) };
            start = self.prefix.after(&last.key);
            chunk = (PAGE_BYTES / (bytes / items.len()).max(1)).clamp(100, 50_000);
            page.items.extend(items);
            if page.remaining == 0 || page.items.len() >= wanted {
                return Ok(page);
            }
        }
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome, StoreError> {
        let largest = transaction
            .operations
            .iter()
            .filter_map(|operation| match operation {
                Operation::Put(key, value) => Some((key.clone(), value.len())),
                Operation::Delete(_) => None,
            })
            .max_by_key(|(_, size)| *size);
        let call = Call {
            action: "commit",
            revision: 0,
            largest: largest.as_ref().map(|(key, size)| (key.as_str(), *size)),
        };
        let before = self.lineage.mark();
        let txn = self.prefix.txn(transaction.clone());
        let response = self
            .connections
            .load_full()
            .write(call, |mut client| {
                let txn = txn.clone();
                async move { client.txn(txn).await }
            })
            .await?
            .0;
        self.accept("commit", before, response.header.as_ref())?;
        let outcome = self.prefix.outcome(response);
        if let Outcome::Committed(revision) = outcome {
            self.lineage.wrote(&transaction.operations, revision);
        }
        Ok(outcome)
    }

    async fn watch(&self, prefix: &str, after_revision: i64) -> Result<WatchStream, StoreError> {
        let before = self.lineage.mark();
        let opened = watch::open(&self.connections.load_full(), &self.prefix, prefix, after_revision).await;
        if let Err(error @ StoreError::Unavailable { .. }) = opened {
            return Err(error);
        }
        // The member that serves the watch may lag behind the member that reported the revision. Only the
        // agreement of the members identifies a revision of the future, for which etcd would wait. The read
        // comes after the watch has begun, so that a watch of an etcd that went back is not handed out. It
        // also tells a compacted revision from one that a restore has skipped.
        let current = self.revision("watch").await?;
        let opened = opened?;
        if opened.revision() < after_revision && current < after_revision {
            return Err(StoreError::Future { requested: after_revision, current });
        }
        Ok(opened.into_stream(self.progress.subscribe(), self.lineage.clone(), before))
    }

    async fn request_progress(&self) -> Result<(), StoreError> {
        self.progress.send_modify(|requests| *requests = requests.wrapping_add(1));
        Ok(())
    }

    async fn compact(&self, revision: i64) -> Result<(), StoreError> {
        self.connections
            .load_full()
            .write(Call::at("compact", revision), |mut client| async move {
                client.compact(revision, Some(CompactionOptions::new())).await
            })
            .await?;
        Ok(())
    }

    fn history(&self) -> History {
        self.lineage.history()
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.revision("answer").await.map(|_| ())
    }
}
