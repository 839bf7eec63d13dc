//! A store that fails when told to.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use futures::StreamExt;
use machinery_storage::{
    History, Outcome, Page, Precondition, Range, Read, Revisions, Store, StoreError, Transaction, WatchStream,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A store that can be made to fail: everything at once, or its watches.
pub(crate) struct FaultyStore {
    store: Mutex<Arc<dyn Store>>,
    /// Number of the history that the store shows; `None` for the number of the store below.
    history: Option<watch::Sender<u64>>,
    down: AtomicBool,
    /// Watches after an earlier revision are answered as compacted.
    compacted_before: AtomicI64,
    watches: Mutex<CancellationToken>,
    /// True while watches report nothing.
    held: watch::Sender<bool>,
    /// Number of readiness checks.
    probed: AtomicUsize,
    /// Number of objects of the largest page that was read.
    largest_page: AtomicUsize,
    /// Number of the next created names that another caller takes just before.
    taken: AtomicUsize,
}

impl FaultyStore {
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            store: Mutex::new(store),
            history: None,
            down: AtomicBool::new(false),
            compacted_before: AtomicI64::new(0),
            watches: Mutex::default(),
            held: watch::Sender::new(false),
            probed: AtomicUsize::new(0),
            largest_page: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
        })
    }

    /// The same with a history of its own, for [`FaultyStore::go_back_to`].
    pub(crate) fn with_history(store: Arc<dyn Store>) -> Arc<Self> {
        let mut faulty = Self::new(store);
        if let Some(faulty) = Arc::get_mut(&mut faulty) {
            faulty.history = Some(watch::Sender::new(0));
        }
        faulty
    }

    /// Lets every call fail, and breaks the watches; or ends that.
    pub(crate) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
        if down {
            self.break_watches();
        }
    }

    /// Breaks the watches; they can be resumed at once.
    pub(crate) fn break_watches(&self) {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.cancel();
        *watches = CancellationToken::new();
    }

    /// Lets the watches tell nothing; or ends that, and they tell what they have.
    pub(crate) fn hold_watches(&self, held: bool) {
        self.held.send_replace(held);
    }

    /// Breaks the watches, and lets them not be resumed before that revision.
    pub(crate) fn compact_before(&self, revision: i64) {
        self.compacted_before.store(revision, Ordering::SeqCst);
        self.break_watches();
    }

    /// Shows another store from now on, as an etcd whose backup was restored.
    pub(crate) fn go_back_to(&self, store: Arc<dyn Store>) {
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = store;
        self.history.as_ref().expect("a history of its own").send_modify(|number| *number += 1);
        self.break_watches();
    }

    fn store(&self) -> Arc<dyn Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of readiness checks.
    pub(crate) fn probed(&self) -> usize {
        self.probed.load(Ordering::SeqCst)
    }

    /// Number of objects of the largest page that was read.
    pub(crate) fn largest_page(&self) -> usize {
        self.largest_page.load(Ordering::SeqCst)
    }

    /// Number of the next creations that another writer is quicker to make.
    pub(crate) fn take_names(&self, count: usize) {
        self.taken.store(count, Ordering::SeqCst);
    }

    async fn be_quicker(&self, transaction: &Transaction) -> Result<(), StoreError> {
        let creates = matches!(transaction.preconditions.first(), Some(Precondition::Absent(_)));
        let put = transaction.operations.first().filter(|_| creates);
        let due = |left: usize| left.checked_sub(1);
        if let Some(put) = put
            && self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, due).is_ok()
        {
            let transaction = Transaction { preconditions: Vec::new(), operations: vec![put.clone()] };
            self.store().commit(transaction).await?;
        }
        Ok(())
    }

    fn check(&self, action: &'static str) -> Result<(), StoreError> {
        if self.down.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable { action, source: "it is down".into() });
        }
        Ok(())
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn get(&self, key: &str) -> Result<Read, StoreError> {
        self.check("get")?;
        self.store().get(key).await
    }

    async fn revisions(&self, keys: &[String]) -> Result<Revisions, StoreError> {
        self.check("get")?;
        self.store().revisions(keys).await
    }

    async fn list(&self, range: &Range) -> Result<Page, StoreError> {
        self.check("list")?;
        let page = self.store().list(range).await?;
        self.largest_page.fetch_max(page.items.len(), Ordering::SeqCst);
        Ok(page)
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome, StoreError> {
        self.check("commit")?;
        self.be_quicker(&transaction).await?;
        self.store().commit(transaction).await
    }

    async fn watch(&self, prefix: &str, after_revision: i64) -> Result<WatchStream, StoreError> {
        self.check("watch")?;
        let oldest = self.compacted_before.load(Ordering::SeqCst);
        if after_revision < oldest {
            return Err(StoreError::Compacted { requested: after_revision, oldest });
        }
        let broken = self.watches.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let held = self.held.subscribe();
        let stream = self.store().watch(prefix, after_revision).await?.then(move |event| {
            let mut held = held.clone();
            async move {
                let _ = held.wait_for(|held| !held).await;
                event
            }
        });
        Ok(stream.take_until(async move { broken.cancelled().await }).boxed())
    }

    async fn request_progress(&self) -> Result<(), StoreError> {
        self.check("request progress")?;
        self.store().request_progress().await
    }

    async fn compact(&self, revision: i64) -> Result<(), StoreError> {
        self.store().compact(revision).await
    }

    fn history(&self) -> History {
        match &self.history {
            Some(own) => History::counted(own.subscribe()),
            None => self.store().history(),
        }
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.probed.fetch_add(1, Ordering::SeqCst);
        self.check("answer")?;
        self.store().ready().await
    }
}
