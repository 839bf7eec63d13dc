//! One change that the command makes.

use std::fmt::Debug;

use anyhow::Context;
use evacuation_api::NodeEvacuation;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A change, in words and as a request.
#[derive(Debug)]
pub(super) struct Change {
    /// The object, such as `node/a`.
    pub(super) object: String,
    /// The change in words.
    pub(super) text: String,
    pub(super) request: Request,
}

/// A write, guarded by the version or the UID that was read.
#[derive(Debug)]
pub(super) enum Request {
    /// Delete a finished drain.
    Delete { drain: String, uid: Option<String> },
    /// Change a node by a merge patch.
    Node { name: String, patch: Value },
    /// Remove conditions of a node.
    Conditions { node: String, patch: Value },
    /// Change a pod by a merge patch.
    Pod { namespace: String, name: String, patch: Value },
    /// Change an object of another's kind by a merge patch.
    Foreign { kind: Box<ApiResource>, namespace: Option<String>, name: String, patch: Value },
}

impl Change {
    /// Makes the change. An object that is gone needs none.
    ///
    /// # Errors
    ///
    /// The server rejects it, or the object has changed since it was read.
    pub(super) async fn carry_out(&self, client: &Client) -> anyhow::Result<()> {
        let client = client.clone();
        let made = match &self.request {
            Request::Delete { drain, uid } => delete(client, drain, uid.clone()).await,
            Request::Node { name, patch } => merge(&Api::<Node>::all(client), name, patch).await,
            Request::Conditions { node, patch } => {
                let patch = Patch::Strategic(patch);
                Api::<Node>::all(client).patch_status(node, &PatchParams::default(), &patch).await.map(drop)
            }
            Request::Pod { namespace, name, patch } => {
                merge(&Api::<Pod>::namespaced(client, namespace), name, patch).await
            }
            Request::Foreign { kind, namespace, name, patch } => {
                let api: Api<DynamicObject> = match namespace {
                    Some(namespace) => Api::namespaced_with(client, namespace, kind.as_ref()),
                    None => Api::all_with(client, kind.as_ref()),
                };
                merge(&api, name, patch).await
            }
        };
        match made {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            made => made.with_context(|| format!("{} cannot be changed", self.object)),
        }
    }
}

async fn delete(client: Client, drain: &str, uid: Option<String>) -> kube::Result<()> {
    let preconditions = Some(Preconditions { uid, resource_version: None });
    let params = DeleteParams { preconditions, ..DeleteParams::default() };
    Api::<NodeEvacuation>::all(client).delete(drain, &params).await.map(drop)
}

async fn merge<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    name: &str,
    patch: &Value,
) -> kube::Result<()> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

/// Returns the metadata of a patch that changes the version that was read, and no other.
pub(super) fn guarded<const N: usize>(object: &impl ResourceExt, fields: [(&str, Value); N]) -> Value {
    let read = [("uid", json!(object.uid())), ("resourceVersion", json!(object.resource_version()))];
    let all = read.into_iter().chain(fields).map(|(field, value)| (field.to_owned(), value));
    Value::Object(all.collect())
}
