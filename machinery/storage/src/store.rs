//! The contract.

use async_trait::async_trait;

#[cfg(doc)]
use crate::MAX_KEYS;
use crate::{History, Outcome, Page, Range, Read, Revisions, StoreError, Transaction, WatchStream};

/// A key-value store with revisions, transactions and watches.
///
/// # Guarantees
///
/// Reads and writes are linearisable. A watch reports every commit under its prefix that came after the given
/// revision, once, in order, with the previous value; the operations of one commit come one after another.
/// Every call gives up after a few seconds with [`StoreError::Unavailable`], and works again by itself when
/// the store is back. A watch that broke off can be resumed after the revision of its last event or progress
/// with nothing lost; it never ends between two operations of one commit.
///
/// Dropping a call's future does not take a commit back.
///
/// # A store that goes back
///
/// An operator can restore a backup under an open store: the revision then falls, or the same revision names
/// another state. The store compares each reply with what it has seen, and [`Store::history`] reports a new
/// number. Its users drop what they have read. A store that is opened after the restore knows nothing of the
/// lost history: a watch after one of its revisions is an error while that revision lies in the future.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Reads one key.
    async fn get(&self, key: &str) -> Result<Read, StoreError>;

    /// Reads the revisions that last changed some keys, without their values: at most [`MAX_KEYS`] keys.
    async fn revisions(&self, keys: &[String]) -> Result<Revisions, StoreError>;

    /// Reads a part of a prefix.
    async fn list(&self, range: &Range) -> Result<Page, StoreError>;

    /// Carries out a transaction, or reports why not.
    async fn commit(&self, transaction: Transaction) -> Result<Outcome, StoreError>;

    /// Reports what is committed under `prefix` after `after_revision`: from the next commit on when that is
    /// the store's revision, else from history. A revision that was compacted, or lies in the future, is an
    /// error, of the call or of the stream's first item.
    async fn watch(&self, prefix: &str, after_revision: i64) -> Result<WatchStream, StoreError>;

    /// Asks for a [`WatchEvent::Progress`](crate::WatchEvent::Progress) on the watches of this store soon. A
    /// reader learns from it that it has seen everything up to a revision. A watch that is still catching up
    /// may skip it: ask again.
    async fn request_progress(&self) -> Result<(), StoreError>;

    /// Forgets values that were overwritten or deleted before this revision. Reads at this revision and
    /// watches after it still work. The store never compacts by itself: an etcd may be shared, so the caller
    /// decides.
    ///
    /// # Errors
    ///
    /// [`StoreError::Compacted`] when that was done before, [`StoreError::Future`] beyond the store's
    /// revision.
    async fn compact(&self, revision: i64) -> Result<(), StoreError>;

    /// Returns the number of the history that the store shows.
    fn history(&self) -> History;

    /// Checks that the store answers.
    async fn ready(&self) -> Result<(), StoreError>;
}
