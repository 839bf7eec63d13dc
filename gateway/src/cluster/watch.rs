//! One watch, which keeps up one cache.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use kube::{Api, Resource, runtime::watcher::Event};
use machinery_watch::{Projected, Projection, Watch};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

/// Records that a watch has delivered its first list.
#[derive(Clone, Debug, Default)]
pub(super) struct Synced(Arc<AtomicBool>);

impl Synced {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Name and end of a watch.
pub(super) struct Follower {
    pub(super) name: &'static str,
    pub(super) synced: Synced,
    pub(super) shutdown: CancellationToken,
}

/// Follows the projections of all objects of a kind until the shutdown.
pub(super) async fn follow<K, P>(
    follower: Follower,
    api: Api<Projected<K, P>>,
    mut take: impl FnMut(&Event<K>),
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    P: Projection<K> + 'static,
{
    let Follower { name, synced, shutdown } = follower;
    machinery_watch::follow(api, Watch::all(name), shutdown, |event| {
        take(&event);
        if matches!(event, Event::InitDone) {
            synced.0.store(true, Ordering::Release);
        }
    })
    .await;
}
