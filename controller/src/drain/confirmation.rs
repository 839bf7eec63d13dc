//! The live reads before a drain takes nodes in, and before the drain of a node ends. Both are final, and the
//! watches can be late.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use evacuation_api::{
    DrainConditionType, DrainedNode, DrainedNodePhase, NodeEvacuation, NodeEvacuationStatus,
};
use evacuation_protocol::silent_since;
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::{Api, Client, ResourceExt, api::ListParams, core::Selector};

use super::snapshot::Snapshot;
use crate::cluster::{CallError, Cluster, Lister, ObjectKey, View, all_done, call};

/// Number of nodes that are read at a time.
const AT_ONCE: usize = 16;

/// Reader of what the beginning and the end of a node's drain follow from.
pub(super) struct Confirmation {
    client: Client,
    view: Arc<View>,
    lister: Arc<Lister>,
}

impl Confirmation {
    /// Returns a reader that stores in the view what the view lacks.
    pub(super) fn new(cluster: &Cluster) -> Self {
        let (view, lister) = (Arc::clone(&cluster.view), Arc::clone(&cluster.lister));
        Self { client: cluster.client.clone(), view, lister }
    }

    /// Returns true when the API confirms the snapshot from which `next` follows, for the nodes that the
    /// drain takes in and for each node whose drain ends. If not, the drain must be planned again: the view
    /// now has what it lacked. A deleted drain only releases.
    ///
    /// # Errors
    ///
    /// A read failed.
    pub(super) async fn confirms(
        &self,
        drain: &NodeEvacuation,
        snapshot: &Snapshot,
        next: &NodeEvacuationStatus,
    ) -> Result<bool, CallError> {
        if drain.metadata.deletion_timestamp.is_some() {
            return Ok(true);
        }
        let stored = drain.status.iter().flat_map(|status| &status.nodes);
        let stored: HashMap<&str, &DrainedNode> = stored.map(|node| (node.name.as_str(), node)).collect();
        let takes_in = !next.nodes.is_empty() || next.is_true(DrainConditionType::Finished);
        let (mut same, mut read) = (true, BTreeSet::new());
        if let Some(selector) = drain.spec.nodes.selector.as_ref().filter(|_| stored.is_empty() && takes_in) {
            let name = drain.metadata.name.as_deref().unwrap_or_default();
            for node in self.selected(name, selector).await? {
                read.insert(node.name_any());
                same &= self.keep(snapshot, &node.name_any(), Some(node));
            }
        }
        let decided = next.nodes.iter().filter(|node| match stored.get(node.name.as_str()) {
            // The pods of a node that is gone are followed, and none of them is asked any more.
            Some(before) if before.deleted_time.is_none() && node.deleted_time.is_some() => true,
            Some(before) => node.phase.is_final() && before.phase != node.phase,
            None => stored.is_empty() && !read.contains(&node.name),
        });
        let confirmed = AtomicBool::new(same);
        let reads = decided.map(async |node| {
            let ends = node.phase.is_final() && stored.contains_key(node.name.as_str());
            let same = (node.phase == DrainedNodePhase::Drained
                || self.confirms_node(snapshot, &node.name).await?)
                && (!ends || self.confirms_pods(snapshot, &node.name).await?);
            confirmed.fetch_and(same, Ordering::Relaxed);
            Ok(())
        });
        all_done(reads.collect(), AT_ONCE).await?;
        Ok(confirmed.into_inner())
    }

    /// Returns true when the snapshot has every pod of a node. The scheduler can have bound one just before
    /// the node was cordoned.
    async fn confirms_pods(&self, snapshot: &Snapshot, node: &str) -> Result<bool, CallError> {
        let mut live = self.lister.pods_on(node).await?;
        let known = snapshot.uids_on(node);
        live.retain(|pod| pod.metadata.uid.as_deref().is_none_or(|uid| !known.contains(uid)));
        let same = live.is_empty();
        for pod in live {
            self.view.apply(Arc::unwrap_or_clone(pod));
        }
        Ok(same)
    }

    /// Returns true when the snapshot has the node as it is, or lacks it as the API does.
    async fn confirms_node(&self, snapshot: &Snapshot, name: &str) -> Result<bool, CallError> {
        let api: Api<Node> = Api::all(self.client.clone());
        let live = call(format!("read node {name}"), api.get_opt(name)).await?;
        Ok(self.keep(snapshot, name, live.map(Arc::new)))
    }

    /// Returns the nodes that the selector of a drain picks.
    async fn selected(&self, drain: &str, selector: &LabelSelector) -> Result<Vec<Arc<Node>>, CallError> {
        // The server has validated it.
        let Ok(selector) = Selector::try_from(selector.clone()) else { return Ok(Vec::new()) };
        let picked = ListParams::default().labels_from(&selector);
        let action = format!("list the nodes of nodeevacuation {drain}");
        self.lister.list(action, &Api::all(self.client.clone()), picked).await
    }

    /// Stores a node as the API shows it. Returns true when the snapshot has it so.
    fn keep(&self, snapshot: &Snapshot, name: &str, live: Option<Arc<Node>>) -> bool {
        let known = snapshot.node(name);
        let same = live.as_deref().map(essence) == known.map(essence);
        match live {
            _ if same => {}
            Some(live) => self.view.apply(Arc::unwrap_or_clone(live)),
            None => {
                let uid = known.and_then(|known| known.metadata.uid.as_deref());
                self.view.remove::<Node>(&ObjectKey::new("", name), uid);
            }
        }
        same
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
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};
    use tokio::time::timeout;

    use super::{super::rejections::Rejections, *};
    use crate::cluster::testing::{cluster_with_api, cluster_with_handle, not_found, response};

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
        let list = |items: Vec<Value>| json!({"metadata": {}, "items": items});
        let pods = list(pods.iter().map(|name| pod(name)).collect());
        let nodes = list(node.iter().cloned().collect());
        let (cluster, _) = cluster_with_api(move |request, _| match (request.uri.path(), &node) {
            ("/api/v1/pods", _) => (200, pods.clone()),
            ("/api/v1/nodes", _) => (200, nodes.clone()),
            ("/api/v1/nodes/n", Some(node)) => (200, node.clone()),
            _ => not_found(),
        });
        Confirmation::new(&cluster)
    }

    fn status(phases: &[&str]) -> Value {
        let node = |phase| {
            json!({"name": "n", "uid": "n1", "phase": phase, "verdict": "Draining", "message": "m",
                "cordoned": "Ours", "pods": {}})
        };
        json!({"nodes": phases.iter().map(node).collect::<Vec<_>>()})
    }

    /// Returns true when the API confirms what follows for a drain with that status from the view.
    async fn confirms_next(reader: &Confirmation, spec: &Value, stored: Value, next: Value) -> bool {
        let drain = json!({"metadata": {"name": "d", "uid": "d"}, "spec": {"nodes": spec}, "status": stored});
        let drain: NodeEvacuation = serde_json::from_value(drain).unwrap();
        let (key, none) = (ObjectKey::new("", "d"), Rejections::default());
        let snapshot = Snapshot::of(&reader.view.index(), &key, &drain, &none, &[]);
        reader.confirms(&drain, &snapshot, &serde_json::from_value(next).unwrap()).await.unwrap()
    }

    /// Returns true when the API confirms that a node's drain passes from one phase to the next.
    async fn confirms(reader: &Confirmation, [from, to]: [&str; 2]) -> bool {
        confirms_next(reader, &json!({"names": ["n"]}), status(&[from]), status(&[to])).await
    }

    #[tokio::test]
    async fn a_node_is_drained_when_the_api_shows_no_pod_that_the_plan_did_not_see() {
        for end in ["Drained", "Gone", "Failed", "Withdrawn"] {
            let reader = confirmation(None, &["late"]);
            assert!(!confirms(&reader, ["Draining", end]).await, "{end}");
            assert_eq!(reader.view.index().pods_on("n").count(), 1);
            assert!(confirms(&reader, ["Draining", end]).await, "the plan judges the pods that it sees");
        }
    }

    /// # Attack
    ///
    /// - Attacker: a tenant whose pods run on nodes that are drained
    /// - Act: gives its pods as many variables as the kube-apiserver stores, so that the controller runs out
    ///   of memory at the end of each drain of their nodes
    /// - Promise: 8
    #[tokio::test(start_paused = true)]
    async fn the_huge_pods_of_all_nodes_that_end_are_read_one_page_at_a_time_and_cut_down() {
        let (cluster, mut api) = cluster_with_handle();
        let reader = Confirmation::new(&cluster);
        let huge = |number: usize| {
            let mut pod = pod(&format!("p{number}"));
            let variables: Vec<Value> = (0..1000).map(|n| json!({"name": n.to_string()})).collect();
            pod["spec"]["containers"] = json!([{"name": "c", "image": "i", "env": variables}]);
            pod
        };
        let pages = [
            json!({"metadata": {"continue": "more"}, "items": (0..20).map(huge).collect::<Vec<_>>()}),
            json!({"metadata": {}, "items": [huge(20)]}),
        ];
        tokio::spawn(async move {
            while let Some((request, send)) = api.next_request().await {
                let query = request.uri().query().unwrap_or_default().to_owned();
                assert!(
                    query.contains("limit=20") && query.contains("fieldSelector=spec.nodeName%3Dn"),
                    "{query}"
                );
                let other = timeout(Duration::from_secs(1), api.next_request()).await;
                assert!(other.is_err(), "two pages are read at a time");
                send.send_response(response(200, &pages[usize::from(query.contains("continue=more"))]));
            }
        });
        let end = async || {
            let (before, after) = (status(&["Draining"; AT_ONCE]), status(&["Drained"; AT_ONCE]));
            confirms_next(&reader, &json!({"names": ["n"]}), before, after).await
        };
        assert!(!end().await);
        let containers = |pod: &Arc<Pod>| pod.spec.as_ref().unwrap().containers.len();
        let kept: Vec<_> = reader.view.index().pods_on("n").map(containers).collect();
        assert_eq!(kept, [0; 21]);
        assert!(end().await, "the drain ends");
    }

    #[tokio::test]
    async fn a_pod_that_the_watch_shows_after_the_plan_does_not_confirm_it() {
        let reader = confirmation(None, &["late"]);
        let drain =
            json!({"metadata": {"name": "d"}, "spec": {"nodes": {}}, "status": status(&["Draining"])});
        let drain: NodeEvacuation = serde_json::from_value(drain).unwrap();
        let (key, none) = (ObjectKey::new("", "d"), Rejections::default());
        let snapshot = Snapshot::of(&reader.view.index(), &key, &drain, &none, &[]);
        reader.view.apply::<Pod>(serde_json::from_value(pod("late")).unwrap());
        let next = serde_json::from_value(status(&["Drained"])).unwrap();
        assert!(!reader.confirms(&drain, &snapshot, &next).await.unwrap());
    }

    #[tokio::test]
    async fn the_nodes_that_a_drain_takes_in_are_as_the_api_shows_them() {
        let finished = json!({"type": "Finished", "status": "True", "reason": "NoNodes", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let none = json!({"nodes": [], "conditions": [finished]});
        let picks = json!({"selector": {"matchLabels": {"a": "b"}}});
        let names = json!({"names": ["n"]});
        let earlier = node(&json!({"metadata": {"uid": "n0", "resourceVersion": "6"}}));
        let unlabelled = node(&json!({"metadata": {"labels": null}}));
        let labelled = json!({"metadata": {"labels": {"a": "b"}, "resourceVersion": "8"}});
        // What the API and the view have, the drain's nodes, and its next status.
        let table = [
            ("labelled just now", Some(node(&labelled)), Some(unlabelled), &picks, none),
            ("registered anew", Some(node(&json!({}))), Some(earlier), &names, status(&["Draining"])),
            ("deleted", None, Some(node(&labelled)), &picks, status(&["Draining"])),
        ];
        for (what, live, known, spec, next) in table {
            let reader = confirmation(live, &[]);
            reader.view.apply::<Node>(serde_json::from_value(known.unwrap()).unwrap());
            let begins = || confirms_next(&reader, spec, status(&[]), next.clone());
            assert!(!begins().await, "{what}");
            assert!(begins().await, "{what}: the view has what it lacked");
        }
    }

    #[tokio::test]
    async fn a_drain_that_follows_its_selector_lists_no_nodes_while_none_matches() {
        let reader = confirmation(Some(node(&json!({}))), &[]);
        let follows = json!({"selector": {"matchLabels": {"a": "b"}}, "follow": true});
        assert!(confirms_next(&reader, &follows, status(&[]), status(&[])).await);
        assert!(reader.view.index().node("n").is_none());
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
    async fn a_waiting_node_is_deleted_only_when_the_api_lacks_it() {
        let mut begun = status(&["Draining"]);
        begun["nodes"][0]["deletedTime"] = json!("2026-01-01T00:00:00Z");
        let begins = async |reader: &Confirmation| {
            confirms_next(reader, &json!({"names": ["n"]}), status(&["Pending"]), begun.clone()).await
        };
        let reader = confirmation(Some(node(&json!({}))), &[]);
        assert!(!begins(&reader).await);
        assert!(reader.view.index().node("n").is_some(), "the watch was late");
        assert!(begins(&confirmation(None, &[])).await);
    }

    #[tokio::test]
    async fn what_has_ended_before_or_goes_on_is_not_read() {
        let reader = confirmation(None, &["late"]);
        assert!(confirms(&reader, ["Drained", "Drained"]).await);
        assert!(confirms(&reader, ["Pending", "Draining"]).await);
        assert_eq!(reader.view.index().pods_on("n").count(), 0);
    }
}
