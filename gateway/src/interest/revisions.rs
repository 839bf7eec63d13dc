//! The revisions of a DaemonSet, read live.

use k8s_openapi::{
    api::apps::v1::{ControllerRevision, DaemonSet},
    apimachinery::pkg::runtime::RawExtension,
};
use kube::{Api, Client, ResourceExt, api::ListParams, core::Selector};
use machinery_watch::{Projected, Projection};
use serde_json::Value;

use super::owner::REVISION_LABEL;
use crate::paging::list;

/// Maximum number of pages. A DaemonSet keeps ten revisions unless its author says otherwise.
const PAGES: usize = 5;

/// The part of a revision by which the newest is found.
enum Number {}

impl Projection<ControllerRevision> for Number {
    fn project(revision: &mut ControllerRevision) {
        revision.data = RawExtension(Value::Null);
        let metadata = std::mem::take(&mut revision.metadata);
        revision.metadata.labels = metadata.labels.map(|mut labels| {
            labels.retain(|name, _| name == REVISION_LABEL);
            labels
        });
        revision.metadata.owner_references = metadata.owner_references.map(|mut owners| {
            owners.retain(|owner| owner.controller == Some(true));
            owners.shrink_to_fit();
            owners
        });
    }
}

/// Reads number, hash and controller of the revisions of a DaemonSet; none where there are more than 100.
///
/// One of them at a time is in memory as a whole.
///
/// # Errors
///
/// They cannot be read.
pub(super) async fn revisions(client: &Client, set: &DaemonSet) -> kube::Result<Vec<ControllerRevision>> {
    let Ok(selector) = Selector::try_from(set.spec.selector.clone()) else {
        return Ok(Vec::new());
    };
    let namespace = set.namespace().unwrap_or_default();
    let api: Api<Projected<ControllerRevision, Number>> = Api::namespaced(client.clone(), &namespace);
    let params = ListParams::default().labels_from(&selector);
    Ok(list(&api, params, PAGES).await?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A kube-apiserver with that many revisions, and what it was asked for.
    fn with_revisions(count: usize) -> (Client, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let number = |name: &str| {
                let value = query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
                value.and_then(|value| value.parse::<usize>().ok()).unwrap_or_default()
            };
            let (first, limit) = (number("continue"), number("limit"));
            let end = count.min(first + limit);
            let items: Vec<_> = (first..end).map(revision).collect();
            let next = if end < count { end.to_string() } else { String::new() };
            let list = json!({
                "kind": "ControllerRevisionList", "apiVersion": "apps/v1", "metadata": {"continue": next}, "items": items,
            });
            seen.lock().unwrap().push(request.uri().to_string());
            async move { Ok::<_, std::io::Error>(Response::new(Body::from(list.to_string().into_bytes()))) }
        });
        (Client::new(service, "default"), asked)
    }

    fn revision(number: usize) -> Value {
        let owner = |uid: &str, controls: bool| json!({"apiVersion": "v1", "kind": "K", "name": "k", "uid": uid, "controller": controls});
        json!({
            "metadata": {
                "name": format!("agent-{number}"), "namespace": "shop",
                "labels": {REVISION_LABEL: format!("hash-{number}"), "app": "agent"},
                "annotations": {"note": "n"}, "managedFields": [{"manager": "m"}],
                "ownerReferences": [owner("ds", true), owner("other", false)],
            },
            "data": {"spec": {"template": {}}}, "revision": number,
        })
    }

    fn set() -> DaemonSet {
        serde_json::from_value(json!({
            "metadata": {"name": "agent", "namespace": "shop", "uid": "ds"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {}},
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn only_what_tells_the_newest_revision_is_kept_of_each() {
        let (client, _) = with_revisions(1);
        let kept = revisions(&client, &set()).await.unwrap();
        let expected = json!([{
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {
                "labels": {REVISION_LABEL: "hash-0"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "k", "uid": "ds", "controller": true}],
            },
            "data": null, "revision": 0,
        }]);
        assert_eq!(serde_json::to_value(kept).unwrap(), expected);
    }

    #[tokio::test]
    async fn the_revisions_of_the_daemon_set_are_read_in_pages() {
        let (client, asked) = with_revisions(45);
        let numbers = revisions(&client, &set()).await.unwrap().into_iter().filter_map(|kept| kept.revision);
        assert_eq!(numbers.collect::<Vec<_>>(), (0..45).collect::<Vec<_>>());
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 3);
        for uri in asked.iter() {
            assert!(uri.starts_with("/apis/apps/v1/namespaces/shop/controllerrevisions?"), "{uri}");
            assert!(uri.contains("limit=20") && uri.contains("labelSelector=app%3Dagent"), "{uri}");
        }
    }

    #[tokio::test]
    async fn more_revisions_than_a_daemon_set_has_are_not_read_to_the_end() {
        let (client, asked) = with_revisions(100);
        assert_eq!(revisions(&client, &set()).await.unwrap().len(), 100);
        let (client, more) = with_revisions(5_000);
        assert!(revisions(&client, &set()).await.unwrap().is_empty());
        assert_eq!((asked.lock().unwrap().len(), more.lock().unwrap().len()), (5, 5));
    }
}
