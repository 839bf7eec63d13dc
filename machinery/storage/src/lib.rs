//! A key-value store with revisions, transactions and watches, as an API server needs it.
//!
//! The model is etcd's: one revision counts the commits of the whole store; each key remembers the revision
//! that last changed it; a watch replays what was committed after a revision. [`Store`] is the trait,
//! [`EtcdStore`] and [`EmbeddedStore`] implement it, and one contract suite
//! (`tests/machinery/tests/contract.rs`) runs on both.

#[cfg(feature = "embedded")]
mod embedded;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
mod event;
mod history;
mod model;
mod store;
mod transaction;

#[cfg(feature = "embedded")]
pub use embedded::{EmbeddedOptions, EmbeddedStore};
pub use error::StoreError;
#[cfg(feature = "etcd")]
pub use etcd::{EtcdOptions, EtcdOptionsError, EtcdStore, EtcdTls};
pub use event::{WatchEvent, WatchStream};
pub use history::History;
pub use model::{KeyValue, MAX_KEYS, Page, Range, Read, Revisions};
pub use store::Store;
pub use transaction::{Operation, Outcome, Precondition, Transaction};
