//! Carries out the verbs on one stored kind, by the rules of its strategy.

mod claims;
mod create;
mod delete;
mod keys;
mod lens;
mod list;
mod metadata;
mod update;
mod watch;
mod write;

use std::{sync::Arc, time::Duration};

use machinery_storage::Store;
use rand::RngExt;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub use self::delete::{DeleteOptions, Propagation};
pub(crate) use self::{
    keys::Keys,
    lens::{Lens, Selected, Selection},
    list::{Continue, Listed, Version},
    update::{Make, Part},
    watch::{EventType, WatchEvent, WatchFrom, Watching},
};
use crate::{
    ApiError, DeleteContext, Reason, RequestContext, Strategy,
    cache::{self, Cache, Scope},
    resource_name::ResourceName,
    stored::{Stored, unshare},
};

/// So often a write is tried anew when others came between. Far more than the writers of one object at a time.
const ATTEMPTS: u32 = 100;

/// One stored kind.
///
/// # Guarantees
///
/// Every write is one transaction of the store, guarded by the version that it was made from, and carries the
/// changes of the object's claims. What a method returned, every later read of the newest state shows.
pub struct Registry<S: Strategy> {
    strategy: S,
    store: Arc<dyn Store>,
    resource: ResourceName,
    keys: Keys,
    cache: Arc<Cache<S::Object>>,
    /// The most bytes of an object that a caller may make.
    size_limit: usize,
}

impl<S: Strategy> Registry<S> {
    /// The objects of the strategy's kind in that store. Keys are `PREFIX/GROUP/RESOURCE/[NAMESPACE/]NAME`, so
    /// registries of different kinds can share a prefix; claims lie under `PREFIX/claims/`.
    pub fn new(store: Arc<dyn Store>, prefix: &str, strategy: S) -> Arc<Self> {
        Self::with_size_limit(store, prefix, strategy, usize::MAX)
    }

    /// The same, with objects of at most so many bytes: a caller can create none that is larger, nor make one larger that is. Neither the
    /// status subresource nor the server's own changes are limited, so that what was let in can be finished.
    pub fn with_size_limit(store: Arc<dyn Store>, prefix: &str, strategy: S, size_limit: usize) -> Arc<Self> {
        let resource = ResourceName::of::<S::Object>();
        let keys = Keys::new(prefix, &resource);
        let cache = Arc::new(Cache::new(resource.to_string()));
        Arc::new(Self { strategy, store, resource, keys, cache, size_limit })
    }

    /// The kind's rules.
    pub fn strategy(&self) -> &S {
        &self.strategy
    }

    /// Fills the watch cache and keeps it at the store's side until `shutdown`. The server does it for the registries
    /// that it serves.
    pub async fn run(&self, shutdown: CancellationToken) {
        let prefix = self.keys.objects().to_owned();
        cache::feed(self.cache.clone(), self.store.clone(), prefix, shutdown).await;
    }

    /// Whether the watch cache was filled and keeps up: the store was heard of within a minute.
    pub fn keeps_up(&self) -> bool {
        self.cache.keeps_up()
    }

    /// Whether the store answers.
    pub(crate) async fn ready(&self) -> Result<(), ApiError> {
        Ok(self.store.ready().await?)
    }

    /// How many objects the watch cache holds.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether the watch cache holds no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads one object from the store; `namespace` is empty for cluster-scoped kinds.
    ///
    /// # Errors
    ///
    /// `NotFound` when it does not exist.
    pub async fn get(&self, namespace: &str, name: &str) -> Result<S::Object, ApiError> {
        self.get_stored(namespace, name).await.map(unshare)
    }

    pub(crate) async fn get_stored(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Stored<S::Object>>, ApiError> {
        let found = self.store.get(&self.keys.object(namespace, name)).await?.found;
        let found = found.ok_or_else(|| self.resource.not_found(name))?;
        // The cache's copy of the same revision spares the decoding, and has its bytes made.
        if let Some(cached) = self.cache.get(&Keys::relative(namespace, name))
            && cached.revision() == found.mod_revision
        {
            return Ok(cached);
        }
        Ok(Arc::new(Stored::decode(&found)?))
    }

    /// Reads one object from the watch cache, which has everything up to `revision` then.
    pub(crate) async fn get_cached(
        &self,
        namespace: &str,
        name: &str,
        revision: i64,
    ) -> Result<Arc<Stored<S::Object>>, ApiError> {
        self.reach(revision).await?;
        // A list of one, for it tells an object that is not there from one that cannot be read.
        let (_, mut found) = self.cache.list(&self.scope(namespace, Some(name)), None)?;
        found.pop().ok_or_else(|| self.resource.not_found(name))
    }

    /// The objects of a namespace, or all for an empty one, as the watch cache has them: a moment old at most.
    ///
    /// # Errors
    ///
    /// The cache is not filled, or one of them cannot be read by this version of the server.
    pub async fn list(&self, namespace: &str) -> Result<Vec<Arc<Stored<S::Object>>>, ApiError> {
        self.cache.wait_for(0).await?;
        Ok(self.cache.list(&self.scope(namespace, None), None)?.1)
    }

    /// Returns the newest objects of a namespace, or all for an empty one. Every write that was answered before this
    /// call is in.
    ///
    /// # Errors
    ///
    /// The store does not answer, or one of the objects cannot be read by this version of the server.
    pub async fn list_newest(&self, namespace: &str) -> Result<Vec<Arc<Stored<S::Object>>>, ApiError> {
        Ok(self.objects(&self.scope(namespace, None), list::Version::Newest).await?.1)
    }

    /// Creates an object in `context.namespace` by all the strategy's rules.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`, `Invalid`, what the strategy says, and its claim conflict when a claim is taken.
    pub async fn create(&self, context: &RequestContext, object: S::Object) -> Result<S::Object, ApiError> {
        self.create_stored(context, object).await.map(unshare)
    }

    /// Replaces an object of `context.namespace` by all the strategy's rules; with a resourceVersion, only that version.
    ///
    /// # Errors
    ///
    /// `NotFound`, `Conflict` when another write came between, `Invalid`, and what the strategy says.
    pub async fn update(
        &self,
        context: &RequestContext,
        name: &str,
        object: S::Object,
    ) -> Result<S::Object, ApiError> {
        let make = Box::new(move |_: &Stored<S::Object>| Ok(object.clone()));
        self.update_stored(context, name, Part::Main, make).await.map(|written| unshare(written.stored))
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
        context: &RequestContext,
        namespace: &str,
        name: &str,
        change: F,
    ) -> Result<S::Object, ApiError>
    where
        F: FnMut(&mut S::Object) -> Result<(), ApiError> + Send,
    {
        self.mutate_stored(context, namespace, name, change).await.map(|written| unshare(written.stored))
    }

    /// Deletes an object of `context.namespace` by all the strategy's rules: removes it, or marks it as being deleted
    /// when finalizers are left. Returns it as it is then, or went.
    ///
    /// # Errors
    ///
    /// `NotFound`, `Conflict` when a precondition fails, and what the strategy says.
    pub async fn delete(
        &self,
        context: &RequestContext,
        name: &str,
        options: DeleteOptions,
        delete: DeleteContext,
    ) -> Result<S::Object, ApiError> {
        self.delete_stored(context, name, options, delete).await.map(|written| unshare(written.stored))
    }

    pub(crate) fn resource(&self) -> &ResourceName {
        &self.resource
    }

    pub(crate) fn scope(&self, namespace: &str, name: Option<&str>) -> Scope {
        Scope::new(namespace, name, self.strategy.info().namespaced)
    }

    /// Refuses what a caller made of an object when its metadata, or the rest but for its status, is too large; and larger than
    /// it was, so that an object from before there was a limit can shrink. Each part has the limit for itself: who fills the
    /// metadata keeps nobody else from what the kind is for.
    fn check_size(&self, object: &S::Object, old: Option<&S::Object>) -> Result<(), ApiError> {
        if self.size_limit == usize::MAX {
            return Ok(());
        }
        let name = kube::Resource::meta(object).name.as_deref().unwrap_or_default();
        let parts = |object: &S::Object| {
            Parts::of(object).map_err(|source| ApiError::internal(format!("encoding {name}"), source))
        };
        let (new, old) = (parts(object)?, old.map(parts).transpose()?.unwrap_or_default());
        let limit = self.size_limit;
        for (what, size, before) in
            [("metadata", new.metadata, old.metadata), ("content", new.content, old.content)]
        {
            if size > limit.max(before) {
                let message = format!(
                    "Request entity too large: the {what} of {} {name:?} would have {size} bytes: limit is {limit}",
                    self.resource
                );
                return Err(ApiError::status(Reason::RequestEntityTooLarge, message));
            }
        }
        Ok(())
    }

    fn key_of(&self, object: &S::Object) -> String {
        let meta = kube::Resource::meta(object);
        let name = meta.name.as_deref().unwrap_or_default();
        self.keys.object(meta.namespace.as_deref().unwrap_or_default(), name)
    }
}

/// How many bytes the parts of an object have that callers write.
#[derive(Default)]
struct Parts {
    metadata: usize,
    /// All but metadata and status.
    content: usize,
}

impl Parts {
    fn of(object: &impl Serialize) -> Result<Self, serde_json::Error> {
        let mut value = serde_json::to_value(object)?;
        let fields = value.as_object_mut();
        let metadata = fields.and_then(|fields| {
            fields.remove("status");
            fields.remove("metadata")
        });
        Ok(Self {
            metadata: serde_json::to_vec(&metadata)?.len(),
            content: serde_json::to_vec(&value)?.len(),
        })
    }
}

/// Waits a little before a write is tried anew: not at all at first, then longer and at random, so that writers of one object
/// do not meet again and again.
async fn backoff(attempt: u32) {
    if attempt < 2 {
        return tokio::task::yield_now().await;
    }
    let most = f64::from(1_u32 << attempt.min(5));
    let wait = rand::rng().random_range(0.0..most);
    tokio::time::sleep(Duration::from_secs_f64(wait / 1000.0)).await;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_and_content_are_measured_each_for_itself_and_the_status_not_at_all() {
        let sizes = |metadata: usize, content: usize, status: usize| {
            let object = json!({
                "metadata": {"annotations": {"why": "x".repeat(metadata)}},
                "spec": "x".repeat(content),
                "status": "x".repeat(status),
            });
            let parts = Parts::of(&object).expect("JSON");
            (parts.metadata, parts.content)
        };
        let (metadata, content) = sizes(0, 0, 0);
        assert_eq!(sizes(100, 0, 0), (metadata + 100, content));
        assert_eq!(sizes(0, 100, 0), (metadata, content + 100));
        assert_eq!(sizes(0, 0, 100), (metadata, content));
    }
}
