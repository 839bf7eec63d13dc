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
    Api, Resource,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::{task::JoinSet, time::Instant};
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
/// Time without a failure after which the pauses begin anew.
const WORKED: Duration = Duration::from_secs(10);

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
            Kind::Evacuations => tasks.spawn(view::<Evacuation>(cluster, kind, disown, stop)),
            Kind::NodeEvacuations => tasks.spawn(view::<NodeEvacuation>(cluster, kind, disown, stop)),
            Kind::NodeEvacuationRules => tasks.spawn(view::<NodeEvacuationRule>(cluster, kind, disown, stop)),
            Kind::Pods => tasks.spawn(view::<Pod>(cluster, kind, prune_pod, stop)),
            Kind::Budgets => tasks.spawn(view::<PodDisruptionBudget>(cluster, kind, disown, stop)),
            Kind::Nodes => tasks.spawn(view::<Node>(cluster, kind, disown, stop)),
            Kind::Namespaces => {
                tasks.spawn(view::<PartialObjectMeta<Namespace>>(cluster, kind, prune_namespace, stop))
            }
            Kind::ReplicaSets => {
                tasks.spawn(view::<PartialObjectMeta<ReplicaSet>>(cluster, kind, prune_replica_set, stop))
            }
        };
    }
}

/// Drops the record of ownership, which the controller does not read.
fn disown<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}

/// The receiver of a watch: the view, or a feature that keeps a kind of its own.
pub(crate) trait Watched<K>: Send + Sync {
    /// Returns an object without what the receiver does not need. Objects are pruned before they are kept.
    fn pruned(&self, object: K) -> K {
        object
    }

    /// Takes in the first list, or a list after the watch broke.
    fn reset(&self, objects: Vec<K>);

    /// Takes in the state of an object.
    fn apply(&self, object: K);

    /// Takes in the deletion of an object.
    fn delete(&self, object: &K);
}

/// Feeds the view with the objects of a kind until `stop`.
async fn view<K>(cluster: Cluster, kind: Kind, prune: fn(&mut K), stop: CancellationToken)
where
    K: Viewed + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let api = Api::<K>::all(cluster.client.clone());
    follow(api, kind.watch_name(), None, &ViewOf { cluster, kind, prune }, stop).await;
}

/// The view, as the receiver of one kind.
struct ViewOf<K> {
    cluster: Cluster,
    kind: Kind,
    prune: fn(&mut K),
}

impl<K: Viewed> Watched<K> for ViewOf<K> {
    fn pruned(&self, mut object: K) -> K {
        (self.prune)(&mut object);
        object
    }

    fn reset(&self, objects: Vec<K>) {
        self.cluster.view.reset(objects);
        self.cluster.readiness.set(self.kind.watch_name());
    }

    fn apply(&self, object: K) {
        self.cluster.view.apply(object);
    }

    fn delete(&self, object: &K) {
        self.cluster.view.delete(object);
    }
}

/// Passes the objects of an API to a receiver until `stop`. `name` is that of the watch in log lines, and
/// `fields` selects the objects.
pub(crate) async fn follow<K>(
    api: Api<K>,
    name: &str,
    fields: Option<&str>,
    watched: &impl Watched<K>,
    stop: CancellationToken,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let mut config = watcher::Config::default().timeout(WATCH_SECONDS);
    config.field_selector = fields.map(str::to_owned);
    let mut stream = Box::pin(watcher(api, config).backoff(Pauses { failures: 0, last: None }));
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
        // A list begins before the API is asked, which can fail as before.
        if !matches!(event, Event::Init) && std::mem::take(&mut broken) {
            info!("the {name} works again");
        }
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => listed.push(watched.pruned(object)),
            Event::InitDone => watched.reset(std::mem::take(&mut listed)),
            Event::Apply(object) => watched.apply(watched.pruned(object)),
            Event::Delete(object) => watched.delete(&object),
        }
    }
}

/// The pauses between attempts to go on with a watch.
struct Pauses {
    failures: u32,
    last: Option<Instant>,
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let worked = self.last.replace(now).is_none_or(|last| now >= last + WORKED);
        self.failures = if worked { 1 } else { self.failures.saturating_add(1) };
        Some(backoff(PAUSE.0, PAUSE.1, self.failures))
    }
}

impl Backoff for Pauses {
    /// Does nothing: it is called for the beginning of a list, too, before the API is asked.
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_while_each_list_fails_and_are_short_after_the_watch_worked() {
        let mut pauses = Pauses { failures: 0, last: None };
        let mut last = Duration::ZERO;
        for _ in 0..10 {
            last = pauses.next().unwrap();
            tokio::time::advance(last).await;
            // The beginning of the next list.
            pauses.reset();
        }
        assert!(last > PAUSE.1 / 2, "{last:?}");
        tokio::time::advance(WORKED).await;
        assert!(pauses.next().unwrap() <= PAUSE.0);
    }
}
