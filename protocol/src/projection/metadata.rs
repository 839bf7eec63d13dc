//! The part of an object's metadata that is kept.

use evacuation_api::{DOMAIN, POD_ANNOTATIONS};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The annotation that marks a pod as the mirror of a static one.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";
/// The annotation by which users say which pods of a ReplicaSet are deleted first.
const DELETION_COST_ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Maximum number of annotations of the project's domain that are kept of an object, beside those of pods.
const ANNOTATIONS: usize = 32;
/// Maximum number of owners that are kept of an object.
const OWNERS: usize = 8;
/// Maximum number of finalizers that are kept of an object.
const FINALIZERS: usize = 8;

/// Drops what no rule reads. Of the labels and annotations those of the project's own domain stay, and
/// `labels` of the others. The annotations that are read of pods, the owner that controls the object and the
/// project's own finalizer come before others.
pub fn project_metadata(metadata: &mut ObjectMeta, labels: usize) {
    metadata.managed_fields = None;
    metadata.generate_name = None;
    if let Some(annotations) = &mut metadata.annotations {
        let mut left = ANNOTATIONS;
        annotations.retain(|name, _| {
            [MIRROR_ANNOTATION, DELETION_COST_ANNOTATION].contains(&name.as_str())
                || POD_ANNOTATIONS.contains(&name.as_str())
                || (is_own(name) && take_one(&mut left))
        });
    }
    if let Some(all) = &mut metadata.labels {
        let (mut own, mut others) = (ANNOTATIONS, labels);
        all.retain(|name, _| take_one(if is_own(name) { &mut own } else { &mut others }));
    }
    if let Some(owners) = &mut metadata.owner_references {
        owners.sort_by_key(|owner| owner.controller != Some(true));
        shorten(owners, OWNERS);
    }
    if let Some(finalizers) = &mut metadata.finalizers {
        finalizers.sort_by_key(|finalizer| !is_own(finalizer));
        shorten(finalizers, FINALIZERS);
    }
}

/// Keeps the first elements, and no room for others: a decoded list has room for twice as many.
pub(super) fn shorten<T>(list: &mut Vec<T>, most: usize) {
    list.truncate(most);
    list.shrink_to_fit();
}

/// Returns true for a label, annotation or finalizer of the project's domain or of a subdomain.
fn is_own(name: &str) -> bool {
    let prefix = name.split_once('/').map_or("", |(prefix, _)| prefix);
    prefix.strip_suffix(DOMAIN).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn take_one(left: &mut usize) -> bool {
    let taken = left.checked_sub(1);
    *left = taken.unwrap_or_default();
    taken.is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn many(prefix: &str, count: usize) -> serde_json::Map<String, Value> {
        (0..count).map(|n| (format!("{prefix}{n:04}"), json!(""))).collect()
    }

    #[test]
    fn what_is_kept_of_metadata_is_bounded_and_what_is_read_comes_first() {
        let mut annotations = many("a.evacuation.dev/", 100);
        annotations.extend(many("acme.io/", 1000));
        annotations.insert("evacuation.dev/responders".to_owned(), json!("[]"));
        let mut labels = many("l", 1000);
        labels.insert("refresh.evacuation.dev/owner".to_owned(), json!("u"));
        let owner = |n: usize, controller: bool| json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": format!("{n}"), "controller": controller});
        let mut owners: Vec<_> = (0..1000).map(|n| owner(n, false)).collect();
        owners.push(owner(1000, true));
        let mut finalizers: Vec<_> = (0..1000).map(|n| format!("a.b/{n}")).collect();
        finalizers.push("evacuation.dev/cancellation".to_owned());
        let mut metadata: ObjectMeta = serde_json::from_value(json!({
            "name": "n", "uid": "u", "resourceVersion": "1", "annotations": annotations, "labels": labels,
            "ownerReferences": owners, "finalizers": finalizers,
            "managedFields": [{"manager": "m", "fieldsV1": many("f:", 1000)}],
        }))
        .unwrap();
        project_metadata(&mut metadata, 64);
        assert_eq!(metadata.managed_fields, None);
        let annotations = metadata.annotations.unwrap();
        assert_eq!(
            (annotations.len(), annotations["evacuation.dev/responders"].as_str()),
            (ANNOTATIONS + 1, "[]")
        );
        let labels = metadata.labels.unwrap();
        assert_eq!((labels.len(), labels["refresh.evacuation.dev/owner"].as_str()), (65, "u"));
        let owners = metadata.owner_references.unwrap();
        assert_eq!((owners.len(), owners[0].uid.as_str(), owners[1].uid.as_str()), (OWNERS, "1000", "0"));
        let finalizers = metadata.finalizers.unwrap();
        assert_eq!((finalizers.len(), finalizers.capacity()), (FINALIZERS, FINALIZERS));
        assert_eq!(finalizers[0], "evacuation.dev/cancellation");
    }
}
