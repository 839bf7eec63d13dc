//! Watches of the API, which update the index.

use std::{collections::BTreeSet, fmt::Debug, time::Duration};

use evacuation_api::{Evacuation, NodeEvacuation, NodeEvacuationRule};
use futures::TryStreamExt;
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Namespace, Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Resource, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Cluster, Kind, backoff,
    index::{prune_namespace, prune_pod, prune_replica_set},
    view::Viewed,
};

/// Seconds after which a watch is resumed where it stopped: for so long can a broken connection go
/// unnoticed.
const WATCH_SECONDS: u32 = 120;
/// The shortest and the longest pause after a watch broke. Short, so that answers given right after an outage
/// are seen.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));

/// Starts the watches of those kinds.
pub(crate) fn follow_kinds(
    cluster: &Cluster,
    kinds: &BTreeSet<Kind>,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) {
    for kind in kinds {
        let (cluster, kind, stop) = (cluster.clone(), *kind, stop.clone());
        match kind {
            Kind::Evacuations => tasks.spawn(follow::<Evacuation>(cluster, kind, |_| {}, stop)),
            Kind::NodeEvacuations => tasks.spawn(follow::<NodeEvacuation>(cluster, kind, |_| {}, stop)),
            Kind::NodeEvacuationRules => {
                tasks.spawn(follow::<NodeEvacuationRule>(cluster, kind, |_| {}, stop))
            }
            Kind::Pods => tasks.spawn(follow::<Pod>(cluster, kind, prune_pod, stop)),
            Kind::Budgets => tasks.spawn(follow::<PodDisruptionBudget>(cluster, kind, |_| {}, stop)),
            Kind::Nodes => {
                tasks.spawn(follow::<Node>(cluster, kind, |node| node.metadata.managed_fields = None, stop))
            }
            Kind::Namespaces => {
                tasks.spawn(follow::<PartialObjectMeta<Namespace>>(cluster, kind, prune_namespace, stop))
            }
            Kind::ReplicaSets => {
                tasks.spawn(follow::<PartialObjectMeta<ReplicaSet>>(cluster, kind, prune_replica_set, stop))
            }
        };
    }
}

async fn follow<K>(cluster: Cluster, kind: Kind, prune: fn(&mut K), stop: CancellationToken)
where
    K: Viewed
        + Resource<DynamicType = ()>
        + ResourceExt
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static,
{
    let name = kind.watch_name();
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    let mut stream =
        Box::pin(watcher(Api::<K>::all(cluster.client.clone()), config).backoff(Pauses { failures: 0 }));
    let mut listed = Vec::new();
    let mut broken = false;
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return,
            event = stream.try_next() => event,
        };
        let event = match event {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(error) => {
                if !broken {
                    warn!(error = &error as &dyn std::error::Error, "the {name} broke");
                }
                broken = true;
                continue;
            }
        };
        if std::mem::take(&mut broken) {
            info!("the {name} works again");
        }
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(mut object) => {
                prune(&mut object);
                listed.push(object);
            }
            Event::InitDone => {
                cluster.view.reset(std::mem::take(&mut listed));
                cluster.readiness.set(name);
            }
            Event::Apply(mut object) => {
                prune(&mut object);
                cluster.view.apply(object);
            }
            Event::Delete(object) => cluster.view.delete(&object),
        }
    }
}

/// The pauses between attempts to go on with a watch.
struct Pauses {
    failures: u32,
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        Some(backoff(PAUSE.0, PAUSE.1, self.failures))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.failures = 0;
    }
}
