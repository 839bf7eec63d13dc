//! Objects of one foreign kind: their watch, and writes guarded by the state that was decided on.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use evacuation_api::is_dns_subdomain;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::{DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cluster::{CallError, Change, Cluster, Leadership, ObjectKey, Table, Watched, call, follow, lock};

/// Receiver of the changes of a foreign kind.
pub(super) trait Observer: Send + Sync + 'static {
    /// Queues the keys that a change concerns.
    fn observe(&self, change: &Change<DynamicObject>);
}

/// The objects of one foreign kind.
pub(super) struct Foreign {
    client: Client,
    leadership: Leadership,
    resource: ApiResource,
    table: Mutex<Table<DynamicObject>>,
    listed: AtomicBool,
}

impl Foreign {
    /// Returns the objects of a kind of which none is known yet.
    pub(super) fn new(cluster: &Cluster, kind: &GroupVersionKind, plural: &str) -> Arc<Self> {
        Arc::new(Self {
            client: cluster.client.clone(),
            leadership: cluster.leadership.clone(),
            resource: ApiResource::from_gvk_with_plural(kind, plural),
            table: Mutex::default(),
            listed: AtomicBool::new(false),
        })
    }

    /// Starts the watch. It is retried while the kind or the right to watch it is missing.
    pub(super) fn follow(
        self: &Arc<Self>,
        observer: Arc<impl Observer>,
        stop: &CancellationToken,
        tasks: &mut JoinSet<()>,
    ) {
        let (foreign, stop) = (Arc::clone(self), stop.clone());
        tasks.spawn(async move {
            let api = Api::all_with(foreign.client.clone(), &foreign.resource);
            let name = format!("watch of {}", foreign.resource.plural);
            follow(api, &name, None, &Feed { foreign, observer }, stop).await;
        });
    }

    /// Returns the plural of the kind, with its group.
    pub(super) fn kind(&self) -> String {
        format!("{}.{}", self.resource.plural, self.resource.group)
    }

    /// Returns the object of that key.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<DynamicObject>> {
        lock(&self.table).get(key).cloned()
    }

    /// Returns every known object.
    pub(super) fn all(&self) -> Vec<Arc<DynamicObject>> {
        lock(&self.table).iter().map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Returns every known key.
    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        lock(&self.table).iter().map(|(key, _)| key.clone()).collect()
    }

    /// Returns the known objects of a namespace.
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<DynamicObject>> {
        lock(&self.table).namespace(namespace).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Returns true once the watch has listed the objects.
    pub(super) fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Relaxed)
    }

    /// Returns the reference by which an Event names an object.
    pub(super) fn reference(&self, object: &DynamicObject) -> ObjectReference {
        object.object_ref(&self.resource)
    }

    /// Reads an object from the API. There is none whose name is not valid.
    pub(super) async fn read(&self, key: &ObjectKey) -> Result<Option<Arc<DynamicObject>>, CallError> {
        if !is_dns_subdomain(&key.name) {
            return Ok(None);
        }
        let read = self.api(&key.namespace);
        let live = call(format!("read {} {key}", self.resource.kind), read.get_opt(&key.name)).await?;
        let Some(live) = live else { return Ok(None) };
        self.keep(Ok(live))?;
        Ok(self.get(key))
    }

    /// Returns an object of the kind, not yet created.
    pub(super) fn unnamed(&self) -> DynamicObject {
        DynamicObject::new("", &self.resource)
    }

    /// Creates an object with that key. One that is there is taken in as it is.
    pub(super) async fn create(&self, key: &ObjectKey, mut object: DynamicObject) -> Result<(), CallError> {
        self.leadership.check()?;
        object.metadata.name = Some(key.name.clone());
        let (api, parameters) = (self.api(&key.namespace), PostParams::default());
        match call(format!("create {} {key}", self.resource.kind), api.create(&parameters, &object)).await {
            Err(error) if error.status().is_some_and(|status| status.reason == "AlreadyExists") => {
                self.read(key).await.map(drop)
            }
            created => self.keep(created),
        }
    }

    /// Deletes an object.
    pub(super) async fn delete(&self, object: &DynamicObject) -> Result<(), CallError> {
        self.leadership.check()?;
        let key = ObjectKey::of(object);
        let preconditions = Preconditions { uid: object.uid(), resource_version: None };
        let parameters = DeleteParams::default().preconditions(preconditions);
        let api = self.api(&key.namespace);
        let delete = api.delete(&key.name, &parameters);
        // The watch shows the deletion.
        match call(format!("delete {} {key}", self.resource.kind), delete).await {
            Err(error) if error.code() != 404 => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns true when the API knows no object of that key and UID.
    pub(super) async fn is_gone(&self, key: &ObjectKey, uid: &str) -> Result<bool, CallError> {
        let read = self.api(&key.namespace);
        let live = call(format!("read {} {key}", self.resource.kind), read.get_opt(&key.name)).await?;
        Ok(live.is_none_or(|object| object.uid().as_deref() != Some(uid)))
    }

    /// Reads every object from the API.
    pub(super) async fn list(&self) -> Result<Vec<DynamicObject>, CallError> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &self.resource);
        let list = call(format!("list {}", self.resource.plural), api.list(&ListParams::default())).await;
        Ok(list?.items)
    }

    /// Adds a finalizer.
    pub(super) async fn hold(&self, object: &DynamicObject, finalizer: &str) -> Result<(), CallError> {
        let mut finalizers = object.finalizers().to_vec();
        finalizers.push(finalizer.to_owned());
        self.patch(object, json!({"finalizers": finalizers})).await
    }

    /// Removes a finalizer.
    pub(super) async fn release(&self, object: &DynamicObject, finalizer: &str) -> Result<(), CallError> {
        let mut finalizers = object.finalizers().to_vec();
        finalizers.retain(|known| known != finalizer);
        self.patch(object, json!({"finalizers": finalizers})).await
    }

    /// Sets an annotation.
    pub(super) async fn annotate(
        &self,
        object: &DynamicObject,
        name: &str,
        value: &str,
    ) -> Result<(), CallError> {
        self.patch(object, json!({"annotations": {name: value}})).await
    }

    /// Merges a status into that of the object.
    pub(super) async fn set_status(&self, object: &DynamicObject, status: &Value) -> Result<(), CallError> {
        self.leadership.check()?;
        let (key, parameters) = (ObjectKey::of(object), PatchParams::default());
        let patch = Patch::Merge(json!({"metadata": guard(object), "status": status}));
        let api = self.api(&key.namespace);
        let write = api.patch_status(&key.name, &parameters, &patch);
        self.keep(call(format!("write the status of {} {key}", self.resource.kind), write).await)
    }

    async fn patch(&self, object: &DynamicObject, metadata: Value) -> Result<(), CallError> {
        self.leadership.check()?;
        let (key, parameters) = (ObjectKey::of(object), PatchParams::default());
        let mut guarded = guard(object);
        if let (Some(guarded), Value::Object(metadata)) = (guarded.as_object_mut(), metadata) {
            guarded.extend(metadata);
        }
        let patch = Patch::Merge(json!({"metadata": guarded}));
        let api = self.api(&key.namespace);
        let write = api.patch(&key.name, &parameters, &patch);
        self.keep(call(format!("change {} {key}", self.resource.kind), write).await)
    }

    /// Takes in the result of a write. An object that is gone needs no write.
    fn keep(&self, written: Result<DynamicObject, CallError>) -> Result<(), CallError> {
        match written {
            Ok(mut object) => {
                object.metadata.managed_fields = None;
                lock(&self.table).apply(object);
                Ok(())
            }
            Err(error) if error.code() == 404 => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn api(&self, namespace: &str) -> Api<DynamicObject> {
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), &self.resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &self.resource)
        }
    }
}

/// Returns the metadata by which a write applies to the state that was decided on.
fn guard(object: &DynamicObject) -> Value {
    json!({"uid": object.uid(), "resourceVersion": object.resource_version()})
}

/// Returns true for an object that a finalizer holds.
pub(super) fn is_held(object: &DynamicObject, finalizer: &str) -> bool {
    object.finalizers().iter().any(|known| known == finalizer)
}

/// The watch's receiver.
struct Feed<O> {
    foreign: Arc<Foreign>,
    observer: Arc<O>,
}

impl<O: Observer> Feed<O> {
    fn observe(&self, changes: impl IntoIterator<Item = Change<DynamicObject>>) {
        for change in changes {
            self.observer.observe(&change);
        }
    }
}

impl<O: Observer> Watched<DynamicObject> for Feed<O> {
    fn pruned(&self, mut object: DynamicObject) -> DynamicObject {
        object.metadata.managed_fields = None;
        object
    }

    fn reset(&self, objects: Vec<DynamicObject>) {
        let changes = lock(&self.foreign.table).reset(objects);
        self.foreign.listed.store(true, Ordering::Relaxed);
        self.observe(changes);
    }

    fn apply(&self, object: DynamicObject) {
        let change = lock(&self.foreign.table).apply(object);
        self.observe(change);
    }

    fn delete(&self, object: &DynamicObject) {
        let change = lock(&self.foreign.table).delete(object);
        self.observe(change);
    }
}
