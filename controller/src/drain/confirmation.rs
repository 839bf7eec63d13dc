//! The live reads before the drain of a node ends. Such an end is final, and the watches can be late.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use evacuation_api::{DrainedNodePhase, NodeEvacuation, NodeEvacuationStatus};
use evacuation_protocol::silent_since;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};

use crate::cluster::{CallError, ObjectKey, View, all_done, call, pods_on, prune_pod};

/// Number of nodes that are read at a time.
const AT_ONCE: usize = 16;

/// Reader of what the end of a node's drain follows from.
pub(super) struct Confirmation {
    client: Client,
    view: Arc<View>,
}

impl Confirmation {
    /// Returns a reader that stores in the view what the view lacks.
    pub(super) fn new(client: Client, view: Arc<View>) -> Self {
        Self { client, view }
    }

    /// Returns true when the API confirms the view, for each node whose drain ends by `next`. If not, the
    /// drain must be planned again, as the view now has what it lacked. A deleted drain only releases.
    pub(super) async fn confirms(
        &self,
        drain: &NodeEvacuation,
        next: &NodeEvacuationStatus,
    ) -> Result<bool, CallError> {
        if drain.metadata.deletion_timestamp.is_some() {
            return Ok(true);
        }
        let stored = drain.status.iter().flat_map(|status| &status.nodes);
        let stored: HashMap<&str, DrainedNodePhase> =
            stored.map(|node| (node.name.as_str(), node.phase)).collect();
        let ends = next.nodes.iter().filter(|node| {
            node.phase.is_final() && stored.get(node.name.as_str()).is_none_or(|before| *before != node.phase)
        });
        let confirmed = AtomicBool::new(true);
        let reads = ends.map(async |node| {
            let same = match node.phase {
                DrainedNodePhase::Drained => self.confirms_pods(&node.name).await?,
                _ => self.confirms_node(&node.name).await?,
            };
            confirmed.fetch_and(same, Ordering::Relaxed);
            Ok(())
        });
        all_done(reads.collect(), AT_ONCE).await?;
        Ok(confirmed.into_inner())
    }

    /// Returns true when the view has every pod of a node. The scheduler can have bound one just before the
    /// node was cordoned.
    async fn confirms_pods(&self, node: &str) -> Result<bool, CallError> {
        let mut live = pods_on(&self.client, node).await?;
        {
            let index = self.view.index();
            live.retain(|pod| index.pods_on(node).all(|known| known.metadata.uid != pod.metadata.uid));
        }
        let same = live.is_empty();
        for mut pod in live {
            prune_pod(&mut pod);
            self.view.apply(pod);
        }
        Ok(same)
    }

    /// Returns true when the view has the node as it is, or lacks it as the API does.
    async fn confirms_node(&self, name: &str) -> Result<bool, CallError> {
        let api: Api<Node> = Api::all(self.client.clone());
        let live = call(format!("read node {name}"), api.get_opt(name)).await?;
        let known = self.view.index().node(name);
        let same = live.as_ref().map(essence) == known.as_deref().map(essence);
        match (live, known) {
            _ if same => {}
            (Some(mut live), _) => {
                live.metadata.managed_fields = None;
                self.view.apply(live);
            }
            (None, known) => {
                let uid = known.as_ref().and_then(|known| known.metadata.uid.as_deref());
                self.view.remove::<Node>(&ObjectKey::new("", name), uid);
            }
        }
        Ok(same)
    }
}

/// The part of a node that a drain depends on.
pub(super) fn essence(node: &Node) -> impl PartialEq {
    let metadata = &node.metadata;
    (
        metadata.uid.clone(),
        metadata.labels.clone(),
        metadata.annotations.clone(),
        node.spec.as_ref().and_then(|spec| spec.unschedulable),
        silent_since(node).is_some(),
    )
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower_test::mock;

    use super::*;
    use crate::cluster::{Cluster, EventSink, Leadership};

    const NOT_FOUND: &str = r#"{"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"}"#;

    fn pod(name: &str) -> Value {
        json!({"metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "7"},
               "spec": {"nodeName": "n", "containers": []}})
    }

    fn node(patch: &Value) -> Value {
        let mut node = json!({"metadata": {"name": "n", "uid": "n1", "resourceVersion": "7"}, "spec": {}});
        crate::builtin::testing::merge(&mut node, patch);
        node
    }

    /// A reader of an API that has that node and those pods. The view has nothing.
    fn confirmation(node: Option<Value>, pods: &[&str]) -> Confirmation {
        let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
        let pods: Vec<Value> = pods.iter().map(|name| pod(name)).collect();
        let list = json!({"metadata": {}, "items": pods}).to_string();
        tokio::spawn(async move {
            while let Some((request, send)) = handle.next_request().await {
                let (code, body) = match (request.uri().path(), &node) {
                    ("/api/v1/pods", _) => (200, list.clone()),
                    ("/api/v1/nodes/n", Some(node)) => (200, node.to_string()),
                    _ => (404, NOT_FOUND.to_owned()),
                };
                let body = Body::from(body.into_bytes());
                send.send_response(Response::builder().status(code).body(body).unwrap());
            }
        });
        let client = Client::new(service, "default");
        let cluster = Cluster::new(client.clone(), Leadership::alone(), EventSink::default());
        Confirmation::new(client, cluster.view)
    }

    fn status(phase: &str) -> Value {
        json!({"nodes": [{"name": "n", "uid": "n1", "phase": phase, "verdict": "Draining", "message": "m",
            "cordoned": "Ours", "pods": {}}]})
    }

    /// Returns true when the API confirms that a node's drain passes from one phase to the next.
    async fn confirms(reader: &Confirmation, [from, to]: [&str; 2]) -> bool {
        let drain =
            json!({"metadata": {"name": "d", "uid": "d"}, "spec": {"nodes": {}}, "status": status(from)});
        let drain: NodeEvacuation = serde_json::from_value(drain).unwrap();
        let next: NodeEvacuationStatus = serde_json::from_value(status(to)).unwrap();
        reader.confirms(&drain, &next).await.unwrap()
    }

    #[tokio::test]
    async fn a_node_is_drained_when_the_api_shows_no_pod_that_the_watch_did_not_show() {
        let reader = confirmation(None, &["late"]);
        assert!(!confirms(&reader, ["Draining", "Drained"]).await);
        assert_eq!(reader.view.index().pods_on("n").count(), 1);
        assert!(confirms(&reader, ["Draining", "Drained"]).await, "the plan judges the pods that are known");
    }

    #[tokio::test]
    async fn a_node_is_gone_or_left_alone_when_the_api_shows_the_same_of_it() {
        let cordoned = node(&json!({"metadata": {"resourceVersion": "8"}, "spec": {"unschedulable": true}}));
        for phase in ["Gone", "Failed", "Withdrawn"] {
            let reader = confirmation(Some(cordoned.clone()), &[]);
            reader.view.apply::<Node>(serde_json::from_value(node(&json!({}))).unwrap());
            assert!(!confirms(&reader, ["Pending", phase]).await, "{phase}");
            let known = reader.view.index().node("n").unwrap();
            assert_eq!(known.spec.as_ref().unwrap().unschedulable, Some(true));
            assert!(confirms(&reader, ["Pending", phase]).await, "{phase}");
        }
        let deleted = confirmation(None, &[]);
        assert!(confirms(&deleted, ["Pending", "Gone"]).await);
        deleted.view.apply::<Node>(serde_json::from_value(node(&json!({}))).unwrap());
        assert!(!confirms(&deleted, ["Pending", "Failed"]).await);
        assert!(deleted.view.index().node("n").is_none());
    }

    #[tokio::test]
    async fn what_has_ended_before_or_goes_on_is_not_read() {
        let reader = confirmation(None, &["late"]);
        assert!(confirms(&reader, ["Drained", "Drained"]).await);
        assert!(confirms(&reader, ["Pending", "Draining"]).await);
        assert_eq!(reader.view.index().pods_on("n").count(), 0);
    }
}
