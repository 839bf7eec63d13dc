//! Watches of the API, which update the index.

use std::{collections::BTreeSet, fmt::Debug, marker::PhantomData, sync::Arc};

use evacuation_api::{Evacuation, NodeEvacuation, NodeEvacuationRule};
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Namespace, Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, Resource, core::PartialObjectMeta, runtime::watcher::Event};
use machinery_watch::{Health, Projected, Projection, Watch};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{Cluster, Kind, readiness::WatchFailure, view::Viewed};

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
            Kind::Evacuations => tasks.spawn(view::<Evacuation>(cluster, kind, stop)),
            Kind::NodeEvacuations => tasks.spawn(view::<NodeEvacuation>(cluster, kind, stop)),
            Kind::NodeEvacuationRules => tasks.spawn(view::<NodeEvacuationRule>(cluster, kind, stop)),
            Kind::Pods => tasks.spawn(view::<Pod>(cluster, kind, stop)),
            Kind::Budgets => tasks.spawn(view::<PodDisruptionBudget>(cluster, kind, stop)),
            Kind::Nodes => tasks.spawn(view::<Node>(cluster, kind, stop)),
            Kind::Namespaces => tasks.spawn(view::<PartialObjectMeta<Namespace>>(cluster, kind, stop)),
            Kind::ReplicaSets => tasks.spawn(view::<PartialObjectMeta<ReplicaSet>>(cluster, kind, stop)),
        };
    }
}

/// The receiver of a watch: the view, or a feature that keeps a kind of its own.
pub(crate) trait Watched<K>: Send + Sync {
    /// Drops what the receiver does not read. It is called while an object is decoded.
    fn project(object: &mut K);

    /// Returns what is kept of a listed object until the list is whole: the state that is known already, if
    /// it is that very state.
    fn keep(&self, object: K) -> Arc<K> {
        Arc::new(object)
    }

    /// Records that a list begins. It will show every write that is known now, unless the store went back.
    fn begin_list(&self) {}

    /// Takes in the first list, or a list after the watch broke.
    fn reset(&self, objects: Vec<Arc<K>>);

    /// Takes in the state of an object.
    fn apply(&self, object: K);

    /// Takes in the deletion of an object.
    fn delete(&self, object: &K);

    /// Takes in a failure of the watch, or its end.
    fn note_health(&self, _health: Health<'_>) {}
}

/// Feeds the view with the objects of a kind until `stop`.
async fn view<K>(cluster: Cluster, kind: Kind, stop: CancellationToken)
where
    K: Viewed + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let api = Api::all(cluster.client.clone());
    follow::<K, _>(api, kind.watch_name(), None, &ViewOf { cluster, kind }, stop).await;
}

/// The view, as the receiver of one kind.
pub(crate) struct ViewOf {
    cluster: Cluster,
    kind: Kind,
}

impl<K: Viewed> Watched<K> for ViewOf {
    fn project(object: &mut K) {
        object.project();
    }

    fn begin_list(&self) {
        self.cluster.view.begin_list::<K>();
    }

    fn keep(&self, object: K) -> Arc<K> {
        self.cluster.view.same(&object).unwrap_or_else(|| Arc::new(object))
    }

    fn reset(&self, objects: Vec<Arc<K>>) {
        if self.cluster.view.reset(objects) {
            warn!("the {} shows that the API's store was restored from a backup", self.kind.watch_name());
            self.cluster.restart_term();
        }
        self.cluster.readiness.set(self.kind.watch_name());
    }

    fn apply(&self, object: K) {
        self.cluster.view.apply(object);
    }

    fn delete(&self, object: &K) {
        self.cluster.view.delete(object);
    }

    fn note_health(&self, health: Health<'_>) {
        let Cluster { readiness, clock, .. } = &self.cluster;
        match health {
            Health::Works => readiness.works(self.kind.watch_name()),
            Health::Fails(error) => {
                if let Some(failure) = WatchFailure::of(self.kind, error) {
                    readiness.failed(self.kind.watch_name(), failure, clock.now());
                }
            }
        }
    }
}

/// The part of an object that a receiver keeps.
pub(crate) struct KeptBy<W>(PhantomData<W>);

impl<K, W: Watched<K>> Projection<K> for KeptBy<W> {
    fn project(object: &mut K) {
        W::project(object);
    }
}

/// An object that is cut down to the view's part of it while it is decoded.
pub(crate) type Kept<K> = Projected<K, KeptBy<ViewOf>>;

/// Passes the objects of an API to a receiver until `stop`. `name` is that of the watch in log lines, and
/// `fields` selects the objects.
pub(crate) async fn follow<K, W>(
    api: Api<Projected<K, KeptBy<W>>>,
    name: &str,
    fields: Option<&str>,
    watched: &W,
    stop: CancellationToken,
) where
    K: Resource<DynamicType: Clone> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    W: Watched<K> + 'static,
{
    let mut listed = Vec::new();
    let take = |event| match event {
        Event::Init => {
            listed.clear();
            watched.begin_list();
        }
        Event::InitApply(object) => listed.push(watched.keep(object)),
        Event::InitDone => watched.reset(std::mem::take(&mut listed)),
        Event::Apply(object) => watched.apply(object),
        Event::Delete(object) => watched.delete(&object),
    };
    let health = |health: Health<'_>| watched.note_health(health);
    machinery_watch::follow_with_health(api, Watch { name, fields }, stop, take, health).await;
}
