//! The task that reads owners live and withdraws entries.

use std::{collections::HashMap, sync::Arc, time::Duration};

use chrono::TimeDelta;
use evacuation_api::{Evacuation, GATEWAY_ENTRY_PREFIX, Requester};
use evacuation_protocol::is_finished;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, ReplicaSet, StatefulSet},
    core::v1::{Pod, ReplicationController},
};
use kube::Client;
use prometheus_client::metrics::counter::Counter;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    owner::{Interest, of_daemon_set, of_replica_set, of_replication_controller, of_stateful_set},
    revisions::revisions,
};
use crate::{
    asking::Asker,
    cluster::{Cluster, Interests, Key, SETTLED},
    config::ConfigurationFile,
    owner::{Owner, OwnerKind},
};

/// Pause between two passes. Changes that arrive in it are looked at together.
const PAUSE: Duration = Duration::from_secs(1);
/// Time after which an entry whose withdrawal did not succeed is looked at again.
const AGAIN: Duration = Duration::from_secs(10);
/// Maximum time of a read.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Withdraws the entries that nobody wants any more.
pub(crate) struct Withdrawal {
    pub(crate) client: Client,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) configuration: Arc<ConfigurationFile>,
    pub(crate) interests: Arc<Interests>,
    /// The users of this project, by whom the entries were written.
    pub(crate) users: Vec<String>,
    /// Number of entries that were withdrawn.
    pub(crate) withdrawn: Counter,
}

/// An owner as it is now.
enum Live {
    Gone,
    ReplicaSet(ReplicaSet),
    ReplicationController(ReplicationController),
    StatefulSet(StatefulSet),
    DaemonSet(DaemonSet, Vec<ControllerRevision>),
    /// Nothing tells that it takes a deletion back.
    Job,
}

impl Live {
    fn interest(&self, pod: &Pod) -> Interest {
        match self {
            Self::Gone => Interest::Lost,
            Self::Job => Interest::Kept,
            Self::ReplicaSet(set) => of_replica_set(set),
            Self::ReplicationController(controller) => of_replication_controller(controller),
            Self::StatefulSet(set) => of_stateful_set(set, pod),
            Self::DaemonSet(set, revisions) => of_daemon_set(set, revisions, pod),
        }
    }
}

/// An Evacuation with the entries that follow the owner of its pod.
struct Followed {
    key: Key,
    pod: Arc<Pod>,
    entries: Vec<Requester>,
}

impl Withdrawal {
    /// Withdraws entries until the shutdown.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let asker = Asker::new(self.client.clone());
        let work = async {
            // Before the first lists a pod looks as if it were gone, and its Evacuation would be forgotten.
            while !self.cluster.not_synced().is_empty() {
                sleep(PAUSE).await;
            }
            loop {
                let due = self.interests.due().await;
                let mut by_owner: HashMap<Owner, Vec<Followed>> = HashMap::new();
                for key in due {
                    if let Some((owner, followed)) = self.followed(&key) {
                        by_owner.entry(owner).or_default().push(followed);
                    }
                }
                for (owner, followed) in by_owner {
                    self.look(&asker, &owner, followed).await;
                }
                sleep(PAUSE).await;
            }
        };
        let _: Option<()> = shutdown.run_until_cancelled(work).await;
    }

    /// Returns the owner of an Evacuation's pod, and the entries that follow it.
    fn followed(&self, key: &Key) -> Option<(Owner, Followed)> {
        let found = self.cluster.evacuation(&key.0, &key.1).and_then(|evacuation| {
            let entries = self.entries(&evacuation);
            let target = &evacuation.spec.target.pod;
            let pod = self.cluster.pod(&key.0, &target.name).filter(|pod| pod.metadata.uid == target.uid)?;
            let owner = Owner::of(&pod)?;
            (!entries.is_empty()).then_some((owner, Followed { key: key.clone(), pod, entries }))
        });
        match &found {
            Some((owner, _)) => self.interests.follow(key, &owner.uid),
            None => self.interests.forget(key),
        }
        found
    }

    /// Returns the entries of an Evacuation that the gateway wrote for rows that follow the owner.
    fn entries(&self, evacuation: &Evacuation) -> Vec<Requester> {
        let Some(status) = evacuation.status.as_ref().filter(|status| !is_finished(status)) else {
            return Vec::new();
        };
        let table = self.configuration.table();
        let follows = |entry: &&Requester| {
            let row = entry.name.strip_prefix(GATEWAY_ENTRY_PREFIX);
            let known = status.requesters.iter().find(|known| {
                known.key() == entry.key() && known.left_time.is_none() && self.users.contains(&known.user)
            });
            known.is_some() && row.and_then(|row| table.named(row)).is_some_and(|row| row.follows_owner)
        };
        evacuation.spec.requesters.iter().filter(follows).cloned().collect()
    }

    /// Looks at the entries that follow one owner.
    async fn look(&self, asker: &Asker, owner: &Owner, followed: Vec<Followed>) {
        // An entry that was just written comes from a controller whose status can be older.
        let (young, settled): (Vec<_>, Vec<_>) = followed.into_iter().partition(|one| self.is_young(one));
        for one in young {
            self.interests.add(one.key, SETTLED);
        }
        if settled.is_empty() {
            return;
        }
        let live = match timeout(TIMEOUT, self.read(owner)).await {
            Ok(Ok(live)) => live,
            Ok(Err(error)) => {
                warn!(error = &error as &dyn std::error::Error, "{owner} cannot be read, its entries stay");
                return self.again(settled);
            }
            Err(_) => {
                warn!("{owner} was not read in time, its entries stay");
                return self.again(settled);
            }
        };
        let lost: Vec<_> =
            settled.into_iter().filter(|one| live.interest(&one.pod) == Interest::Lost).collect();
        for one in &lost {
            let (namespace, name) = &one.key;
            for entry in &one.entries {
                match timeout(TIMEOUT, asker.remove(namespace, name, entry)).await {
                    Ok(Ok(true)) => {
                        self.withdrawn.inc();
                        info!("evacuation {namespace}/{name}: {} left: {owner} keeps the pod", entry.name);
                    }
                    Ok(Ok(false)) => {}
                    Ok(Err(error)) => {
                        let error = &error as &dyn std::error::Error;
                        debug!(error, "evacuation {namespace}/{name}: {} did not leave", entry.name);
                    }
                    Err(_) => debug!("evacuation {namespace}/{name}: {} did not leave in time", entry.name),
                }
            }
        }
        // The watch shows whether they left.
        self.again(lost);
    }

    fn again(&self, all: Vec<Followed>) {
        for one in all {
            self.interests.add(one.key, AGAIN);
        }
    }

    fn is_young(&self, one: &Followed) -> bool {
        let (namespace, name) = &one.key;
        let evacuation = self.cluster.evacuation(namespace, name);
        let recorded = evacuation.as_ref().and_then(|evacuation| evacuation.status.as_ref());
        let since = self.cluster.now() - TimeDelta::from_std(SETTLED).unwrap_or_default();
        recorded
            .into_iter()
            .flat_map(|status| &status.requesters)
            .any(|known| known.time.0 > since && one.entries.iter().any(|entry| entry.key() == known.key()))
    }

    async fn read(&self, owner: &Owner) -> kube::Result<Live> {
        let client = &self.client;
        Ok(match owner.kind {
            OwnerKind::ReplicaSet => owner.read(client).await?.map_or(Live::Gone, Live::ReplicaSet),
            OwnerKind::ReplicationController => {
                owner.read(client).await?.map_or(Live::Gone, Live::ReplicationController)
            }
            OwnerKind::StatefulSet => owner.read(client).await?.map_or(Live::Gone, Live::StatefulSet),
            OwnerKind::Job => Live::Job,
            OwnerKind::DaemonSet => match owner.read(client).await? {
                None => Live::Gone,
                Some(set) => {
                    let revisions = revisions(client, &set).await?;
                    Live::DaemonSet(set, revisions)
                }
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use http::{Method, Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::{cluster::Outages, metrics::Metrics};

    /// Returns the reply of a cluster whose pods are listed late. The ReplicaSet that asked its pod is gone.
    async fn reply(method: Method, path: String, watches: bool) -> (u16, Value) {
        let list = |items: Value| (200, json!({"metadata": {"resourceVersion": "5"}, "items": items}));
        let metadata = |name: &str, uid: &str| json!({"name": name, "namespace": "shop", "uid": uid, "resourceVersion": "3"});
        let entry = json!({"owner": "rs", "name": "gateway.evacuation.dev/replicaset"});
        let recorded = json!({"owner": "rs", "name": "gateway.evacuation.dev/replicaset", "user": "gateway",
            "time": "2026-01-01T00:00:00Z"});
        let evacuation = json!({
            "metadata": metadata("db-0-x", "e"),
            "spec": {"target": {"pod": {"name": "db-0", "uid": "1"}}, "requesters": [entry]},
            "status": {"requesters": [recorded]},
        });
        match path.rsplit('/').next().unwrap_or_default() {
            _ if watches => std::future::pending().await,
            "pods" => {
                sleep(4 * SETTLED).await;
                let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "db", "uid": "r", "controller": true});
                let mut pod = json!({"metadata": metadata("db-0", "1"), "spec": {"containers": []}});
                pod["metadata"]["ownerReferences"] = json!([owner]);
                list(json!([pod]))
            }
            "evacuations" => list(json!([evacuation])),
            "db-0-x" if method == Method::GET || method == Method::PUT => (200, evacuation),
            "db" => {
                (404, json!({"kind": "Status", "code": 404, "reason": "NotFound", "details": {"name": "db"}}))
            }
            _ => list(json!([])),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_leaves_after_a_restart_although_the_pods_are_listed_late() {
        let written = Arc::<AtomicUsize>::default();
        let puts = Arc::clone(&written);
        let service = tower::service_fn(move |request: Request<Body>| {
            let watches = request.uri().query().unwrap_or_default().contains("watch=true");
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            if method == Method::PUT {
                puts.fetch_add(1, Ordering::Relaxed);
            }
            async move {
                let (code, body) = reply(method, path, watches).await;
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        let client = Client::new(service, "shop");
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let (interests, metrics) = (Arc::<Interests>::default(), Metrics::default());
        let outages = Arc::<Outages>::default();
        let withdrawal = Withdrawal {
            cluster: Cluster::start(&client, &interests, &outages, &tasks, &shutdown),
            client,
            configuration: ConfigurationFile::start(None, metrics.configuration.clone(), shutdown.clone())
                .await
                .unwrap(),
            interests,
            users: vec!["gateway".to_owned()],
            withdrawn: metrics.entries_withdrawn.clone(),
        };
        tasks.spawn(withdrawal.run(shutdown.clone()));
        sleep(Duration::from_mins(1)).await;
        shutdown.cancel();
        assert!(written.load(Ordering::Relaxed) > 0);
    }
}
