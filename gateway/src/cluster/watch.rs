//! One watch, which keeps up one cache.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{StreamExt, pin_mut};
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Seconds after which a watch is resumed where it stopped: for so long can a broken connection go unnoticed.
const WATCH_SECONDS: u32 = 120;

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

/// Follows all objects of a kind until the shutdown. `prune` drops the parts that nobody reads.
pub(super) async fn follow<K>(
    follower: Follower,
    api: Api<K>,
    prune: fn(&mut K),
    mut take: impl FnMut(&Event<K>),
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let Follower { name, synced, shutdown } = follower;
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    let events = watcher(api, config).modify(prune).default_backoff();
    pin_mut!(events);
    let mut broken = false;
    while let Some(Some(event)) = shutdown.run_until_cancelled(events.next()).await {
        match event {
            Ok(event) => {
                if std::mem::take(&mut broken) {
                    info!("the {name} works again");
                }
                take(&event);
                if matches!(event, Event::InitDone) {
                    synced.0.store(true, Ordering::Release);
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut broken, true) {
                    warn!(error = &error as &dyn std::error::Error, "the {name} broke");
                }
            }
        }
    }
}
