//! The disruption modes of PodGroups, read on demand.

use std::{error::Error, time::Duration};

use evacuation_protocol::moves_together;
use k8s_openapi::api::scheduling::v1beta1::PodGroup;
use kube::{Api, Client};
use moka::sync::Cache;
use tracing::warn;

use super::{CallError, ObjectKey, call};

/// Time for which a mode is known. It never changes, but another group can take the name.
const KNOWN: Duration = Duration::from_secs(30);
/// Maximum number of groups that are known.
const GROUPS: u64 = 10_000;

/// Reader of the disruption modes of PodGroups.
///
/// Only pods in a group are looked up, so that a cluster without PodGroups costs no request. A group that
/// does not exist, or a cluster that does not serve PodGroups, has no mode.
pub(crate) struct GroupModes {
    client: Client,
    together: Cache<ObjectKey, Option<bool>>,
}

impl GroupModes {
    /// Returns a reader that knows no group.
    pub(super) fn new(client: Client) -> Self {
        Self { client, together: Cache::builder().max_capacity(GROUPS).time_to_live(KNOWN).build() }
    }

    /// Returns true when the pods of a group can only be disrupted together. A group that cannot be read
    /// counts as such: its pods hold each other.
    pub(crate) async fn moves_together(&self, group: &ObjectKey) -> bool {
        self.known(group).await.unwrap_or(true)
    }

    /// Returns the same, and `None` for a group that cannot be read: nobody is asked for want of an answer.
    pub(crate) async fn known(&self, group: &ObjectKey) -> Option<bool> {
        if let Some(known) = self.together.get(group) {
            return known;
        }
        let together = match self.read(group).await {
            Ok(found) => Some(found.as_ref().is_some_and(moves_together)),
            Err(error) => {
                warn!(group = %group, error = &error as &dyn Error, "its pods hold each other");
                None
            }
        };
        self.together.insert(group.clone(), together);
        together
    }

    async fn read(&self, group: &ObjectKey) -> Result<Option<PodGroup>, CallError> {
        let api: Api<PodGroup> = Api::namespaced(self.client.clone(), &group.namespace);
        match call(format!("read podgroup {group}"), api.get_opt(&group.name)).await {
            // A path that is not served has no reason of the API, which kube looks for.
            Err(error) if error.status().is_some_and(|status| status.code == 404) => Ok(None),
            read => read,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use tower_test::mock;

    use super::*;

    #[tokio::test]
    async fn in_a_cluster_that_serves_no_groups_each_pod_moves_alone() {
        let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
        let modes = GroupModes::new(Client::new(service, "default"));
        let unserved = async {
            let (_, send) = handle.next_request().await.unwrap();
            let plain = Body::from(b"404 page not found".to_vec());
            send.send_response(Response::builder().status(404).body(plain).unwrap());
        };
        let group = ObjectKey::new("ns", "gang");
        let (known, ()) = tokio::join!(modes.known(&group), unserved);
        assert_eq!(known, Some(false));
    }

    #[tokio::test]
    async fn the_pods_of_a_group_that_cannot_be_read_hold_each_other_and_ask_nobody() {
        let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
        let modes = GroupModes::new(Client::new(service, "default"));
        let group = ObjectKey::new("ns", "gang");
        let fails = async {
            let (_, send) = handle.next_request().await.unwrap();
            send.send_response(Response::builder().status(500).body(Body::empty()).unwrap());
        };
        let (known, ()) = tokio::join!(modes.known(&group), fails);
        assert_eq!(known, None);
        assert!(modes.moves_together(&group).await, "and it is not read again at once");
    }
}
