//! A store whose calls are measured and traced.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use machinery_storage::{
    History, Operation, Outcome, Page, Precondition, Range, Read, Revisions, Store, StoreError, Transaction,
    WatchStream,
};
use machinery_tracing::Span;

use super::{Metrics, StoredLabels};

/// A store whose calls are measured and traced.
pub(super) struct MeasuredStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) metrics: Metrics,
    pub(super) prefix: String,
}

impl MeasuredStore {
    /// Measures a call for that key, and traces it under the name that kube-apiserver gives to such calls.
    async fn observed<T>(
        &self,
        operation: &'static str,
        span: &'static str,
        key: &str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let stored = self.stored(key);
        let started = Instant::now();
        let result = match Span::child_of_current(span) {
            Some(span) => {
                span.text("key", key);
                span.text("group", &stored.group);
                span.text("resource", &stored.resource);
                let result = span.run(call).await;
                if let Err(error) = &result {
                    span.fail(&error.to_string());
                }
                result
            }
            None => call.await,
        };
        self.metrics.observe(operation, stored, started);
        result
    }

    /// Returns the kind that a key belongs to: `PREFIX/GROUP/RESOURCE/...`. There is none for the server's
    /// own keys.
    fn stored(&self, key: &str) -> StoredLabels {
        let rest = key.strip_prefix(&self.prefix).unwrap_or_default().trim_start_matches('/');
        let mut parts = rest.split('/');
        match (parts.next(), parts.next()) {
            (Some(group), Some(resource)) if group.contains('.') => {
                StoredLabels { group: group.to_owned(), resource: resource.to_owned() }
            }
            _ => StoredLabels::default(),
        }
    }
}

/// Returns the operation that a transaction amounts to, and its key, in the words of etcd's client in
/// k8s.io/apiserver.
fn operation(transaction: &Transaction) -> (&'static str, &str) {
    match transaction.operations.first() {
        Some(Operation::Delete(key)) => ("delete", key),
        Some(Operation::Put(key, _)) => {
            let absent =
                |condition: &Precondition| matches!(condition, Precondition::Absent(is) if is == key);
            (if transaction.preconditions.iter().any(absent) { "create" } else { "update" }, key)
        }
        None => ("update", ""),
    }
}

#[async_trait]
impl Store for MeasuredStore {
    async fn get(&self, key: &str) -> Result<Read, StoreError> {
        let call = self.store.get(key);
        self.observed("get", "Get etcd3", key, call).await
    }

    async fn revisions(&self, keys: &[String]) -> Result<Revisions, StoreError> {
        let key = keys.first().map_or("", String::as_str);
        self.observed("get", "Get etcd3", key, self.store.revisions(keys)).await
    }

    async fn list(&self, range: &Range) -> Result<Page, StoreError> {
        let call = self.store.list(range);
        self.observed("list", "List(recursive=true) etcd3", &range.prefix, call).await
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome, StoreError> {
        let (name, key) = operation(&transaction);
        let span = match name {
            "create" => "Create etcd3",
            "delete" => "Delete etcd3",
            _ => "GuaranteedUpdate etcd3",
        };
        let key = key.to_owned();
        self.observed(name, span, &key, self.store.commit(transaction)).await
    }

    async fn watch(&self, prefix: &str, after_revision: i64) -> Result<WatchStream, StoreError> {
        self.store.watch(prefix, after_revision).await
    }

    async fn request_progress(&self) -> Result<(), StoreError> {
        self.store.request_progress().await
    }

    async fn compact(&self, revision: i64) -> Result<(), StoreError> {
        self.store.compact(revision).await
    }

    fn history(&self) -> History {
        self.store.history()
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.observed("ready", "Ready etcd3", "", self.store.ready()).await
    }
}
