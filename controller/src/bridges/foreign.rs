//! Objects of one foreign kind: a watch that keeps only what the bridge reads, and guarded writes.

use std::{
    fmt::Debug,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use evacuation_api::is_dns_subdomain;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::{DynamicObject, DynamicResourceScope, GroupVersionKind},
};
use machinery_watch::Projected;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cluster::{
    CallError, Change, Cluster, KeptBy, Leadership, Lister, ObjectKey, Table, Watched, call, follow, lock,
};

/// Part of the names of labels and annotations that bridges read. Others are not kept.
const OURS: &str = "evacuation.dev/";

/// A foreign kind, and what a bridge reads of its objects.
pub(super) struct ForeignKind {
    /// Group, version and kind.
    pub(super) gvk: [&'static str; 3],
    /// Fields of `spec` that are kept.
    pub(super) spec: &'static [&'static str],
    /// Fields of `status` that are kept.
    pub(super) status: &'static [&'static str],
}

impl ForeignKind {
    /// Returns an object with only what bridges read.
    pub(super) fn pruned(&self, mut object: DynamicObject) -> DynamicObject {
        project_metadata(&mut object);
        let mut data = Map::new();
        for (part, names) in [("spec", self.spec), ("status", self.status)] {
            let Some(Value::Object(mut known)) = object.data.get_mut(part).map(Value::take) else { continue };
            known.retain(|name, _| names.contains(&name.as_str()));
            data.insert(part.to_owned(), Value::Object(known));
        }
        object.data = Value::Object(data);
        object
    }
}

/// Drops the metadata that no bridge reads.
fn project_metadata(object: &mut DynamicObject) {
    object.metadata.managed_fields = None;
    object.metadata.owner_references = None;
    for map in [&mut object.metadata.annotations, &mut object.metadata.labels].into_iter().flatten() {
        map.retain(|name, _| name.contains(OURS));
    }
}

/// Receiver of the changes of a foreign kind.
type Observer = Box<dyn Fn(&Change<DynamicObject>) + Send + Sync>;

/// The objects of one foreign kind.
pub(super) struct Foreign {
    client: Client,
    lister: Arc<Lister>,
    leadership: Leadership,
    kind: &'static ForeignKind,
    resource: ApiResource,
    table: Mutex<Table<DynamicObject>>,
    listed: AtomicBool,
    observer: Observer,
}

impl Foreign {
    /// Returns the objects of a kind of which none is known yet. `observer` is told of each change, also of
    /// those that this process writes.
    pub(super) fn new(
        cluster: &Cluster,
        kind: &'static ForeignKind,
        observer: impl Fn(&Change<DynamicObject>) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let [group, version, name] = kind.gvk;
        let gvk = GroupVersionKind::gvk(group, version, name);
        Arc::new(Self {
            client: cluster.client.clone(),
            lister: Arc::clone(&cluster.lister),
            leadership: cluster.leadership.clone(),
            kind,
            resource: ApiResource::from_gvk(&gvk),
            table: Mutex::default(),
            listed: AtomicBool::new(false),
            observer: Box::new(observer),
        })
    }

    /// Starts the watch. It is retried while the kind or the right to watch it is missing.
    pub(super) fn follow(self: &Arc<Self>, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
        let (foreign, stop) = (Arc::clone(self), stop.clone());
        tasks.spawn(async move {
            let name = format!("watch of {}", foreign.resource.plural);
            let api = Api::all_with(foreign.client.clone(), &foreign.resource);
            follow(api, &name, None, &*foreign, stop).await;
        });
    }

    /// Returns the group, version, kind and plural.
    pub(super) fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// Returns the object of that key, as the watch shows it.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<DynamicObject>> {
        lock(&self.table).get(key).cloned()
    }

    /// Returns every known object.
    pub(super) fn all(&self) -> Vec<Arc<DynamicObject>> {
        lock(&self.table).iter().map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Returns the known objects of a namespace.
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<DynamicObject>> {
        lock(&self.table).namespace(namespace).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Returns true once the watch has listed the objects.
    pub(super) fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Relaxed)
    }

    /// Returns the object of that key, and of that UID if one is given. The API is read when the watch does
    /// not show it.
    pub(super) async fn find(
        &self,
        key: &ObjectKey,
        uid: Option<&str>,
    ) -> Result<Option<Arc<DynamicObject>>, CallError> {
        let is_it = |found: &Arc<DynamicObject>| uid.is_none() || found.metadata.uid.as_deref() == uid;
        match self.get(key).filter(is_it) {
            Some(known) => Ok(Some(known)),
            None => Ok(self.read(key).await?.filter(is_it)),
        }
    }

    /// Returns the object of that key as the API shows it now.
    pub(super) async fn read(&self, key: &ObjectKey) -> Result<Option<Arc<DynamicObject>>, CallError> {
        let live = find(None, &self.api(&key.namespace), &key.name).await?;
        Ok(live.and_then(|live| {
            self.apply(Arc::unwrap_or_clone(live));
            self.get(key)
        }))
    }

    /// Returns every object of a namespace as the API shows it now. All namespaces without one.
    pub(super) async fn list(&self, namespace: &str) -> Result<Vec<Arc<DynamicObject>>, CallError> {
        let api: Api<Projected<DynamicObject, KeptBy<Self>>> = self.api(namespace);
        let (action, all) = (format!("list {}", self.resource.plural), ListParams::default());
        let keep = |object| Some(self.kind.pruned(object));
        let live = self.lister.list_with(action, &api, all, keep).await?;
        let found = live.into_iter().filter_map(|object| {
            let key = ObjectKey::of(&object);
            self.apply(object);
            self.get(&key)
        });
        Ok(found.collect())
    }

    /// Creates an object.
    pub(super) async fn create(&self, object: &DynamicObject) -> Result<(), CallError> {
        self.leadership.check()?;
        let key = ObjectKey::of(object);
        let (api, parameters): (Api<DynamicObject>, _) = (self.api(&key.namespace), PostParams::default());
        let create = api.create(&parameters, object);
        let created = call(format!("create {} {key}", self.resource.kind), create).await?;
        self.apply(created);
        Ok(())
    }

    /// Deletes an object. The watch shows the deletion.
    pub(super) async fn delete(&self, object: &DynamicObject) -> Result<(), CallError> {
        self.leadership.check()?;
        delete(&self.api(&object.namespace().unwrap_or_default()), object).await
    }

    /// Merges a change into the metadata or into the status of an object.
    pub(super) async fn merge(&self, object: &DynamicObject, change: Value) -> Result<(), CallError> {
        self.leadership.check()?;
        let api = self.api(&object.namespace().unwrap_or_default());
        self.apply(merge(&api, object, change).await?);
        Ok(())
    }

    fn api<K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>>(
        &self,
        namespace: &str,
    ) -> Api<K> {
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), &self.resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &self.resource)
        }
    }
}

impl Watched<DynamicObject> for Foreign {
    /// The kind says what else is kept.
    fn project(object: &mut DynamicObject) {
        project_metadata(object);
    }

    fn keep(&self, object: DynamicObject) -> Arc<DynamicObject> {
        Arc::new(self.kind.pruned(object))
    }

    fn begin_list(&self) {
        lock(&self.table).begin_list();
    }

    fn reset(&self, objects: Vec<Arc<DynamicObject>>) {
        let changes = lock(&self.table).reset(objects).changes;
        self.listed.store(true, Ordering::Relaxed);
        changes.iter().for_each(&self.observer);
    }

    fn apply(&self, object: DynamicObject) {
        let change = lock(&self.table).apply(self.kind.pruned(object));
        change.iter().for_each(&self.observer);
    }

    fn delete(&self, object: &DynamicObject) {
        let change = lock(&self.table).delete(object);
        change.iter().for_each(&self.observer);
    }
}

/// Returns the object that is known, or else the one of that name in the API. There is none whose name is not
/// valid.
pub(super) async fn find<K>(
    known: Option<Arc<K>>,
    api: &Api<K>,
    name: &str,
) -> Result<Option<Arc<K>>, CallError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    find_by(known, api.resource_url(), name, api.get_opt(name)).await
}

/// Returns the object that is known, or else the one that `read` finds at that path. There is none whose name
/// is not valid.
pub(super) async fn find_by<K>(
    known: Option<Arc<K>>,
    path: &str,
    name: &str,
    read: impl Future<Output = kube::Result<Option<K>>>,
) -> Result<Option<Arc<K>>, CallError> {
    if known.is_some() || !is_dns_subdomain(name) {
        return Ok(known);
    }
    Ok(call(format!("read {path}/{name}"), read).await?.map(Arc::new))
}

/// Merges a change into the metadata or into the status of the state that was decided on.
pub(super) async fn merge<K>(api: &Api<K>, object: &K, mut change: Value) -> Result<K, CallError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let (name, parameters) = (object.name_any(), PatchParams::default());
    if let Some(change) = change.as_object_mut()
        && let Some(metadata) = change.entry("metadata").or_insert(json!({})).as_object_mut()
    {
        metadata.insert("uid".to_owned(), json!(object.uid()));
        metadata.insert("resourceVersion".to_owned(), json!(object.resource_version()));
    }
    let (patch, of_status) = (Patch::Merge(&change), change.get("status").is_some());
    let action = format!("change {}/{name}", api.resource_url());
    if of_status {
        call(action, api.patch_status(&name, &parameters, &patch)).await
    } else {
        call(action, api.patch(&name, &parameters, &patch)).await
    }
}

/// Deletes the object of that UID.
pub(super) async fn delete<K>(api: &Api<K>, object: &K) -> Result<(), CallError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let preconditions = Preconditions { uid: object.uid(), resource_version: None };
    let (name, parameters) = (object.name_any(), DeleteParams::default().preconditions(preconditions));
    call(format!("delete {}/{name}", api.resource_url()), api.delete(&name, &parameters)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: ForeignKind = ForeignKind {
        gvk: ["example.com", "v1", "Thing"],
        spec: &["nodeName", "absent"],
        status: &["phase"],
    };

    #[test]
    fn a_huge_foreign_object_is_kept_without_what_no_bridge_reads() {
        let huge = "x".repeat(1_000_000);
        let metadata = json!({
            "namespace": "ns", "name": "n", "uid": "u", "resourceVersion": "7",
            "finalizers": ["evacuation.dev/drain-request"], "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": huge, "kubevirt.evacuation.dev/evacuation-uid": "e1"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": huge,
                "bridge.evacuation.dev/node-evacuation": "drain"},
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {huge.as_str(): {}}}}],
        });
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata,
            "spec": {"nodeName": "a", "volumes": [huge]}, "status": {"phase": "Running", "log": huge}, "data": huge,
        });
        let kept = serde_json::to_value(KIND.pruned(serde_json::from_value(object).unwrap())).unwrap();
        let expected = json!({
            "apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": {
                "namespace": "ns", "name": "n", "uid": "u", "resourceVersion": "7",
                "finalizers": ["evacuation.dev/drain-request"], "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"kubevirt.evacuation.dev/evacuation-uid": "e1"},
                "annotations": {"bridge.evacuation.dev/node-evacuation": "drain"},
            },
            "spec": {"nodeName": "a"}, "status": {"phase": "Running"},
        });
        assert_eq!(kept, expected);
        let odd = json!({"metadata": {"name": "n"}, "spec": "text", "status": [1]});
        assert_eq!(KIND.pruned(serde_json::from_value(odd).unwrap()).data, json!({}));
    }
}
