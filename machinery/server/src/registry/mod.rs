//! Registry of one stored kind: carries out the verbs by the rules of the strategy.

mod admit;
mod claims;
mod create;
mod delete;
mod entries;
mod keys;
mod list;
mod metadata;
mod ownership;
mod projection;
mod quota;
mod room;
mod scale;
mod shared_reads;
mod size;
mod update;
mod watch;
mod write;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery_apply::ReplicasPaths;
use machinery_storage::Store;
use rand::RngExt;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use self::{
    delete::{DeleteOptions, Propagation},
    quota::ObjectLimits,
    scale::ScalePaths,
};
pub(crate) use self::{
    keys::Keys,
    list::{Continue, Listed, Version},
    metadata::{another_name, match_namespace, name_new, no_name, update_problems},
    projection::{Projection, Selected, Selection},
    scale::ScaleChange,
    update::Part,
    watch::{EventType, WatchEvent, WatchFrom, Watching},
};
use self::{ownership::ResetFields, quota::Quota, shared_reads::SharedReads};
use crate::{
    Admission, ApiError, DeleteContext, Reason, RequestContext, Strategy,
    cache::{self, Cache, Entry, Scope, Usage},
    resource_name::ResourceName,
    stored::{Stored, unshare},
    version::{KindVersion, Versions},
};

/// Number of attempts of a write that conflicts with others. It far exceeds the number of concurrent writers
/// of one object.
const ATTEMPTS: u32 = 100;

/// One stored kind.
///
/// # Guarantees
///
/// Every write is one transaction of the store. It is guarded by the version that it was made from, and
/// contains the changes of the object's claims. Every later read of the newest state shows what a method
/// returned.
pub struct Registry<S: Strategy> {
    strategy: Arc<S>,
    store: Arc<dyn Store>,
    reads: SharedReads,
    resource: ResourceName,
    versions: Arc<Versions<S::Object>>,
    reset_fields: ResetFields,
    replicas_paths: ReplicasPaths,
    keys: Keys,
    cache: Arc<Cache<S::Object>>,
    quota: Quota,
    admission: OnceLock<Arc<dyn Admission>>,
}

impl<S: Strategy> Registry<S> {
    /// Serves the objects of the strategy's kind in that store. Keys are
    /// `PREFIX/GROUP/RESOURCE/[NAMESPACE/]NAME`, so that registries of different kinds can share a prefix.
    /// Claims are under `PREFIX/claims/`.
    pub fn new(store: Arc<dyn Store>, prefix: &str, strategy: S) -> Arc<Self> {
        Self::with_limits(store, prefix, strategy, ObjectLimits::NONE)
    }

    /// Serves the objects with limits on their number and size.
    pub fn with_limits(store: Arc<dyn Store>, prefix: &str, strategy: S, limits: ObjectLimits) -> Arc<Self> {
        let resource = ResourceName::of::<S::Object>();
        let keys = Keys::new(prefix, &resource);
        let strategy = Arc::new(strategy);
        let (heads, stand_ins) = (entries::heads(strategy.clone()), entries::stand_ins(strategy.clone()));
        let cache = Arc::new(Cache::new(resource.to_string(), heads, stand_ins, store.history()));
        let versions = Arc::new(Versions::new(strategy.versions(), strategy.stored_version()));
        let reset_fields = ResetFields::new(strategy.has_status());
        let replicas_paths = scale::replicas_paths(&*strategy, &versions);
        let reads = SharedReads::new(store.clone());
        Arc::new(Self {
            strategy,
            store,
            reads,
            resource,
            versions,
            reset_fields,
            replicas_paths,
            keys,
            cache,
            quota: Quota::new(limits),
            admission: OnceLock::new(),
        })
    }

    /// Returns the rules of the kind.
    pub fn strategy(&self) -> &S {
        &self.strategy
    }

    /// Fills the watch cache and keeps it in step with the store until `shutdown`. The server runs it for the
    /// registries that it serves.
    pub async fn run(&self, shutdown: CancellationToken) {
        let prefix = self.keys.objects().to_owned();
        cache::feed(self.cache.clone(), self.versions.clone(), self.store.clone(), prefix, shutdown).await;
    }

    /// Returns true when the watch cache is filled and up to date: the store reported within a minute.
    pub fn keeps_up(&self) -> bool {
        self.cache.keeps_up()
    }

    /// Checks that the store answers.
    pub(crate) async fn ready(&self) -> Result<(), ApiError> {
        Ok(self.store.ready().await?)
    }

    /// Returns the usage of the storage, for the metrics.
    pub(crate) fn usage(&self) -> StorageUsage {
        let (total, largest) = self.cache.summary();
        StorageUsage {
            total,
            largest,
            unreadable: self.cache.unreadable(),
            refused: self.quota.refused(),
            removed: self.quota.removed(),
            ended_watches: self.cache.behind(),
        }
    }

    /// Returns the number of objects in the watch cache.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Returns true when the watch cache is empty.
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
        self.get_newest(namespace, name).await?.object()
    }

    /// Reads the newest state of one object.
    pub(crate) async fn get_newest(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Entry<S::Object>>, ApiError> {
        let (key, relative) = (self.keys.object(namespace, name), Keys::relative(namespace, name));
        if let Some(cached) = self.cache.get(&relative) {
            // The cached copy of the newest revision spares the value and its decoding, and has its JSON
            // made.
            let newest = self.reads.newest(&key).await?.key;
            let current =
                if newest == Some(cached.revision()) { Some(cached) } else { self.cache.get(&relative) };
            if let Some(current) = current.filter(|current| newest == Some(current.revision())) {
                return Ok(current);
            }
        }
        let found = self.store.get(&key).await?.found;
        let found = found.ok_or_else(|| self.resource.not_found(name))?;
        self.cache.entry(&relative, &self.versions.read(&found)?)
    }

    /// Reads one object from the watch cache once it shows `revision`.
    pub(crate) async fn get_cached(
        &self,
        namespace: &str,
        name: &str,
        revision: i64,
    ) -> Result<Arc<Entry<S::Object>>, ApiError> {
        self.reach(revision).await?;
        // A list of one: it tells a missing object from one that cannot be read.
        let found = self.cache.list(&self.scope(namespace, Some(name)), None)?;
        found.iter().next().cloned().ok_or_else(|| self.resource.not_found(name))
    }

    /// Returns the objects of a namespace, or all for an empty one, from the watch cache: a moment old at
    /// most.
    ///
    /// # Errors
    ///
    /// The cache is not filled, or this version of the server cannot read one of them.
    pub async fn list(&self, namespace: &str) -> Result<Vec<Arc<Stored<S::Object>>>, ApiError> {
        self.cache.wait_for(0).await?;
        self.cache.list(&self.scope(namespace, None), None)?.iter().map(|entry| entry.object()).collect()
    }

    /// Returns the newest objects of a namespace, or all for an empty one. Every write that was answered
    /// before this call is included.
    ///
    /// # Errors
    ///
    /// The store does not answer, or this version of the server cannot read one of the objects.
    pub async fn list_newest(&self, namespace: &str) -> Result<Vec<Arc<Stored<S::Object>>>, ApiError> {
        let objects = self.objects(&self.scope(namespace, None), list::Version::Newest).await?;
        objects.iter().map(|entry| entry.object()).collect()
    }

    /// Creates an object in `context.namespace` by the rules of the strategy.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`, `Invalid`, the errors of the strategy, and its claim conflict when a claim is taken.
    pub async fn create(&self, context: &RequestContext, object: S::Object) -> Result<S::Object, ApiError> {
        self.create_stored(context, object).await.map(unshare)
    }

    /// Replaces an object of `context.namespace` by the rules of the strategy; with a resourceVersion, only
    /// that version.
    ///
    /// # Errors
    ///
    /// `NotFound`, `Conflict` when another write came first, `Invalid`, and the errors of the strategy.
    pub async fn update(
        &self,
        context: &RequestContext,
        name: &str,
        object: S::Object,
    ) -> Result<S::Object, ApiError> {
        let make = Box::new(move |_: &Stored<S::Object>| Ok(object.clone()));
        self.update_stored(context, name, Part::Main, make).await.map(|written| unshare(written.stored))
    }

    /// Changes an object in one transaction, without the strategy's hooks: the caller is the server's own
    /// code. Claims are adjusted and the generation is counted. `change` is called again with the newer
    /// object after a conflict. Nothing is written when it changes nothing or in a dry run.
    ///
    /// # Errors
    ///
    /// `NotFound`, and the errors of `change`.
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

    /// Rewrites every object that is stored in another version than [`Strategy::stored_version`], and returns
    /// their number. Objects do not change but for their resourceVersion. After it, the older version need
    /// not be served any more.
    ///
    /// # Errors
    ///
    /// The store does not answer, or this version of the server cannot read one of the objects. Objects that
    /// were rewritten before stay so.
    pub async fn rewrite_outdated(&self, context: &RequestContext) -> Result<usize, ApiError> {
        let objects = self.objects(&self.scope("", None), list::Version::Newest).await?;
        let mut rewritten = 0;
        for old in objects.iter().filter(|object| object.is_outdated()) {
            let (namespace, name) = old.names();
            match self.mutate(context, namespace, name, |_| Ok(())).await {
                Ok(_) => rewritten += 1,
                // It was deleted in the meantime.
                Err(error) if error.reason() == Reason::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rewritten)
    }

    /// Deletes an object of `context.namespace` by the rules of the strategy: removes it, or marks it as
    /// terminating when finalizers are left. Returns its last state.
    ///
    /// # Errors
    ///
    /// `NotFound`, `Conflict` when a precondition fails, and the errors of the strategy.
    pub async fn delete(
        &self,
        context: &RequestContext,
        name: &str,
        options: DeleteOptions,
        delete: DeleteContext,
    ) -> Result<S::Object, ApiError> {
        self.delete_stored(context, name, options, delete).await.map(|written| unshare(written.stored))
    }

    /// Refuses an object that has another name or namespace than the path.
    pub(crate) fn check_names(
        &self,
        context: &RequestContext,
        name: &str,
        given: &ObjectMeta,
    ) -> Result<(), ApiError> {
        let mut meta = given.clone();
        match meta.name.as_deref() {
            None | Some("") => Err(metadata::no_name(name)),
            Some(given) if given != name => Err(metadata::another_name(given, name)),
            Some(_) => metadata::match_namespace(&mut meta, context, self.strategy.info().namespaced),
        }
    }

    /// Returns the versions of the kind.
    pub(crate) fn versions(&self) -> &Versions<S::Object> {
        &self.versions
    }

    /// Returns the version that a request is for.
    fn version(&self, context: &RequestContext) -> &dyn KindVersion<S::Object> {
        self.versions.of(&context.version)
    }

    /// Returns an object as the version of a request shows it.
    fn value_of(&self, context: &RequestContext, object: &S::Object) -> Result<Value, ApiError> {
        let name = kube::Resource::meta(object).name.as_deref().unwrap_or_default();
        let shown = self.version(context).to_value(object);
        shown.map_err(|source| ApiError::internal(format!("encoding {name}"), source))
    }

    /// Keeps an object that was written just now for the cache, which needs not decode it then.
    fn remember(&self, stored: &Arc<Stored<S::Object>>) {
        // With several versions, what the store has was converted.
        if self.versions.all().len() == 1 {
            let meta = kube::Resource::meta(&***stored);
            let name = meta.name.as_deref().unwrap_or_default();
            let key = Keys::relative(meta.namespace.as_deref().unwrap_or_default(), name);
            self.cache.remember(&key, stored);
        }
    }

    pub(crate) fn scope(&self, namespace: &str, name: Option<&str>) -> Scope {
        Scope::new(namespace, name, self.strategy.info().namespaced)
    }

    fn key_of(&self, object: &S::Object) -> String {
        let meta = kube::Resource::meta(object);
        let name = meta.name.as_deref().unwrap_or_default();
        self.keys.object(meta.namespace.as_deref().unwrap_or_default(), name)
    }
}

/// Usage of the storage of a kind, for the metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StorageUsage {
    pub(crate) total: Usage,
    /// Largest number and size of any namespace.
    pub(crate) largest: Usage,
    /// Number of objects that this version of the server cannot read.
    pub(crate) unreadable: usize,
    /// Writes that were refused because of a limit.
    pub(crate) refused: u64,
    /// Objects that gave way to writes.
    pub(crate) removed: u64,
    /// Watches that were ended because their client fell behind.
    pub(crate) ended_watches: u64,
}

/// Waits before a retry: not at all at first, then longer and at random, so that writers of one object do not
/// collide again.
async fn backoff(attempt: u32) {
    if attempt < 2 {
        return tokio::task::yield_now().await;
    }
    let most = f64::from(1_u32 << attempt.min(5));
    let wait = rand::rng().random_range(0.0..most);
    tokio::time::sleep(Duration::from_secs_f64(wait / 1000.0)).await;
}
