//! Carries out the verbs on one stored kind, by the rules of its strategy.

use std::sync::Arc;

use machinery_storage::Store;

use crate::{ApiError, Reason, RequestContext, Strategy};

/// One stored kind.
pub struct Registry<S: Strategy> {
    strategy: S,
    _store: Arc<dyn Store>,
    _prefix: String,
}

impl<S: Strategy> Registry<S> {
    /// The objects of the strategy's kind in that store. Keys start with `PREFIX/`; registries of different kinds can
    /// share a prefix.
    pub fn new(store: Arc<dyn Store>, prefix: &str, strategy: S) -> Arc<Self> {
        Arc::new(Self { strategy, _store: store, _prefix: prefix.to_owned() })
    }

    /// The kind's rules.
    pub fn strategy(&self) -> &S {
        &self.strategy
    }

    /// Reads one object from the store; `namespace` is empty for cluster-scoped kinds.
    ///
    /// # Errors
    ///
    /// `NotFound` when it does not exist.
    pub async fn get(&self, _namespace: &str, _name: &str) -> Result<S::Object, ApiError> {
        Err(ApiError::status(Reason::ServiceUnavailable, "the registry is starting"))
    }

    /// The objects of a namespace, or all for an empty one, as the watch cache has them: a moment old at most.
    pub async fn list(&self, _namespace: &str) -> Result<Vec<Arc<S::Object>>, ApiError> {
        Err(ApiError::status(Reason::ServiceUnavailable, "the registry is starting"))
    }

    /// Creates an object in `context.namespace` by all the strategy's rules.
    pub async fn create(&self, _context: &RequestContext, _object: S::Object) -> Result<S::Object, ApiError> {
        Err(ApiError::status(Reason::ServiceUnavailable, "the registry is starting"))
    }

    /// Replaces an object by all the strategy's rules; with a resourceVersion, only that version of it.
    pub async fn update(
        &self,
        _context: &RequestContext,
        _name: &str,
        _object: S::Object,
    ) -> Result<S::Object, ApiError> {
        Err(ApiError::status(Reason::ServiceUnavailable, "the registry is starting"))
    }

    /// Changes an object in one transaction, without the strategy's hooks: the caller is the server's own code. Claims are
    /// adjusted and the generation is counted. `change` is called again with the newer object when another write came
    /// between; nothing is written when it changes nothing or in a dry run.
    ///
    /// # Errors
    ///
    /// `NotFound`, and what `change` fails with.
    pub async fn mutate<F>(
        &self,
        _context: &RequestContext,
        _namespace: &str,
        _name: &str,
        _change: F,
    ) -> Result<S::Object, ApiError>
    where
        F: FnMut(&mut S::Object) -> Result<(), ApiError> + Send,
    {
        Err(ApiError::status(Reason::ServiceUnavailable, "the registry is starting"))
    }
}
