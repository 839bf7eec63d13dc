//! Finalizers of ours on objects of others' kinds, which nobody removes after the controller is gone.

use anyhow::Context;
use evacuation_api::{DRAIN_REQUEST_FINALIZER, NODE_MAINTENANCE_FINALIZER};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams},
    core::GroupVersionKind,
};
use serde_json::json;

use super::change::{Change, Request, guarded};

/// Group, version and kind of the objects that bridges hold, and their finalizer.
const HELD: [([&str; 3], &str); 2] = [
    (["nvsentinel.nvidia.com", "v1alpha1", "DrainRequest"], DRAIN_REQUEST_FINALIZER),
    (["nodemaintenance.medik8s.io", "v1beta1", "NodeMaintenance"], NODE_MAINTENANCE_FINALIZER),
];

/// Reads the objects, and returns the changes that remove our finalizers. A kind that the cluster does not
/// have has no objects.
pub(super) async fn finalizers(client: &Client) -> anyhow::Result<Vec<Change>> {
    let mut changes = Vec::new();
    for ([group, version, kind], finalizer) in HELD {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let objects = match api.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            objects => objects.with_context(|| format!("{} cannot be listed", resource.plural))?,
        };
        changes.extend(objects.items.iter().filter_map(|object| change(object, &resource, finalizer)));
    }
    Ok(changes)
}

fn change(object: &DynamicObject, kind: &ApiResource, finalizer: &str) -> Option<Change> {
    let rest: Vec<_> = object.finalizers().iter().filter(|known| *known != finalizer).collect();
    if rest.len() == object.finalizers().len() {
        return None;
    }
    let metadata = guarded(object, [("finalizers", json!(rest))]);
    let (namespace, name) = (object.namespace(), object.name_any());
    Some(Change {
        object: format!("{}/{name}", kind.plural),
        text: format!("remove the finalizer {finalizer}"),
        request: Request::Foreign {
            kind: Box::new(kind.clone()),
            namespace,
            name,
            patch: json!({"metadata": metadata}),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_finalizer_is_removed() {
        let [(gvk, finalizer), _] = HELD;
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(gvk[0], gvk[1], gvk[2]));
        let mut object = DynamicObject::new("r", &kind);
        object.metadata.finalizers = Some(vec!["a.b/c".to_owned(), finalizer.to_owned()]);
        let found = change(&object, &kind, finalizer).unwrap();
        let Request::Foreign { patch, .. } = found.request else { panic!("{:?}", found.request) };
        assert_eq!(patch["metadata"]["finalizers"], json!(["a.b/c"]));
        object.metadata.finalizers = Some(vec!["a.b/c".to_owned()]);
        assert!(change(&object, &kind, finalizer).is_none());
    }
}
