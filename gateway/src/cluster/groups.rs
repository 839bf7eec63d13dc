//! PodGroups: their pods by the watch, and their disruption modes by reads.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use evacuation_protocol::{MAX_GROUP_MEMBERS, can_be_disrupted, moves_together, pod_group};
use k8s_openapi::api::{core::v1::Pod, scheduling::v1beta1::PodGroup};
use kube::{Api, Client, ResourceExt, runtime::watcher::Event};
use moka::sync::Cache;
use thiserror::Error;
use tokio::time::timeout;

/// Namespace and name of a PodGroup.
type Key = (String, String);
/// The names of the pods of each group that can be disrupted.
type Groups = HashMap<Key, BTreeSet<String>>;

/// Time for which a mode is known. It never changes, but another group can take the name.
const KNOWN: Duration = Duration::from_secs(30);
/// Maximum time of a read, a part of the time of an answer: the pod can then still be judged.
const READ: Duration = Duration::from_millis(200);
/// Maximum number of groups whose modes are known.
const GROUPS: u64 = 10_000;

/// The pods of each PodGroup. A plain struct: the watch writes it.
#[derive(Debug, Default)]
pub(super) struct GroupIndex {
    by_group: Groups,
    /// The list that is being received.
    listed: Groups,
}

impl GroupIndex {
    /// Takes an event of the watch of pods.
    pub(super) fn take(&mut self, event: &Event<Pod>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(pod) => insert(&mut self.listed, pod),
            Event::InitDone => self.by_group = std::mem::take(&mut self.listed),
            Event::Apply(pod) if can_be_disrupted(pod) => insert(&mut self.by_group, pod),
            Event::Apply(pod) | Event::Delete(pod) => {
                let Some(key) = group_key(pod) else { return };
                if let Some(pods) = self.by_group.get_mut(&key) {
                    pods.remove(&pod.name_any());
                    if pods.is_empty() {
                        self.by_group.remove(&key);
                    }
                }
            }
        }
    }

    /// Returns the names of the other pods in a pod's group that can be disrupted. Empty for a group that is
    /// too large to move together.
    pub(super) fn others(&self, pod: &Pod) -> Vec<String> {
        let Some(pods) = group_key(pod).and_then(|key| self.by_group.get(&key)) else { return Vec::new() };
        let name = pod.name_any();
        let others = pods.iter().filter(|other| **other != name);
        if pods.len() > MAX_GROUP_MEMBERS { Vec::new() } else { others.cloned().collect() }
    }
}

fn insert(groups: &mut Groups, pod: &Pod) {
    if let Some(key) = group_key(pod).filter(|_| can_be_disrupted(pod)) {
        groups.entry(key).or_default().insert(pod.name_any());
    }
}

/// Returns the key of a pod's group.
fn group_key(pod: &Pod) -> Option<Key> {
    pod_group(pod).map(|group| (pod.namespace().unwrap_or_default(), group.to_owned()))
}

/// The disruption modes of PodGroups. Only groups of pods that are called for are read.
pub(super) struct GroupModes {
    client: Client,
    together: Cache<Key, bool>,
}

impl GroupModes {
    /// Returns a reader that knows no group.
    pub(super) fn new(client: Client) -> Self {
        Self { client, together: Cache::builder().max_capacity(GROUPS).time_to_live(KNOWN).build() }
    }

    /// Returns true when the pods of the pod's group can only be disrupted together, as far as it is known.
    /// `None` for a mode that is not known.
    pub(super) fn known(&self, pod: &Pod) -> Option<bool> {
        group_key(pod).map_or(Some(false), |key| self.together.get(&key))
    }

    /// Reads the mode of the pod's group. A group that does not exist, or a cluster that does not serve
    /// PodGroups, has none.
    ///
    /// A group that cannot be read in time counts as one that moves together, for as long as a mode is known:
    /// calls would otherwise read it again and again, and wait each time.
    ///
    /// # Errors
    ///
    /// The kube-apiserver did not answer.
    pub(super) async fn read(&self, pod: &Pod) -> Result<(), GroupUnread> {
        let Some(key) = group_key(pod) else { return Ok(()) };
        let api = Api::<PodGroup>::namespaced(self.client.clone(), &key.0);
        let found = match timeout(READ, api.get_opt(&key.1)).await {
            // A path that is not served has no reason of the API, which kube looks for.
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(None),
            Ok(found) => found.map_err(|source| GroupUnread::Api { group: key.1.clone(), source }),
            Err(_) => Err(GroupUnread::Timeout { group: key.1.clone() }),
        };
        let together = found.as_ref().map_or(true, |group| group.as_ref().is_some_and(moves_together));
        self.together.insert(key, together);
        found.map(drop)
    }
}

/// The mode of a PodGroup that could not be read.
#[derive(Debug, Error)]
pub(crate) enum GroupUnread {
    /// The kube-apiserver answered with an error.
    #[error("podgroup {group} cannot be read")]
    Api {
        /// Name of the group.
        group: String,
        /// The error.
        source: kube::Error,
    },
    /// The kube-apiserver did not answer in time.
    #[error("podgroup {group} was not read within {READ:?}")]
    Timeout {
        /// Name of the group.
        group: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use serde_json::json;
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    fn pod(name: &str, group: Option<&str>) -> Pod {
        let group = group.map(|group| json!({"podGroupName": group}));
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"containers": [], "schedulingGroup": group, "nodeName": "node-a"},
        }))
        .unwrap()
    }

    #[test]
    fn a_group_has_the_pods_that_the_watch_shows_up_to_a_bound() {
        let mut index = GroupIndex::default();
        let one = pod("one", Some("gang"));
        for other in [&one, &pod("two", Some("gang")), &pod("three", Some("other")), &pod("four", None)] {
            index.take(&Event::Apply(other.clone()));
        }
        assert_eq!(index.others(&one), ["two"]);
        assert!(index.others(&pod("four", None)).is_empty());
        index.take(&Event::Delete(pod("two", Some("gang"))));
        assert!(index.others(&one).is_empty());
        index.take(&Event::Init);
        for number in 0..MAX_GROUP_MEMBERS {
            index.take(&Event::InitApply(pod(&number.to_string(), Some("gang"))));
        }
        index.take(&Event::InitDone);
        assert_eq!(index.others(&pod("0", Some("gang"))).len(), MAX_GROUP_MEMBERS - 1);
        index.take(&Event::Apply(one.clone()));
        assert!(index.others(&one).is_empty(), "too many");
        let mut ended = pod("0", Some("gang"));
        ended.status.get_or_insert_default().phase = Some("Succeeded".to_owned());
        index.take(&Event::Apply(ended));
        assert_eq!(index.others(&one).len(), MAX_GROUP_MEMBERS - 1, "one has ended");
        let mut waiting = pod("waiting", Some("gang"));
        waiting.spec.get_or_insert_default().node_name = None;
        index.take(&Event::Apply(waiting));
        assert_eq!(index.others(&one).len(), MAX_GROUP_MEMBERS - 1, "one waits for a node");
    }

    #[tokio::test]
    async fn in_a_cluster_that_serves_no_groups_each_pod_moves_alone() {
        let service = tower::service_fn(|_: http::Request<Body>| async {
            let plain = Body::from(b"404 page not found".to_vec());
            Ok::<_, std::convert::Infallible>(http::Response::builder().status(404).body(plain).unwrap())
        });
        let (modes, member) = (GroupModes::new(Client::new(service, "shop")), pod("one", Some("gang")));
        modes.read(&member).await.unwrap();
        assert_eq!(modes.known(&member), Some(false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_that_cannot_be_read_counts_as_one_that_moves_together_and_is_not_read_again_at_once() {
        let asked = Arc::new(AtomicUsize::new(0));
        for answers in [true, false] {
            let count = Arc::clone(&asked);
            let service = tower::service_fn(move |_: http::Request<Body>| {
                count.fetch_add(1, Ordering::SeqCst);
                async move {
                    if !answers {
                        std::future::pending::<()>().await;
                    }
                    let reply = http::Response::builder().status(500).body(Body::empty());
                    Ok::<_, std::convert::Infallible>(reply.unwrap())
                }
            });
            let modes = GroupModes::new(Client::new(service, "shop"));
            let member = pod("one", Some("gang"));
            assert_eq!(modes.known(&member), None);
            let error = modes.read(&member).await.unwrap_err();
            assert_eq!(matches!(error, GroupUnread::Api { .. }), answers, "{error}");
            assert_eq!(modes.known(&member), Some(true));
        }
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
}
