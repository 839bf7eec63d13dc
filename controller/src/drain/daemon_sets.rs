//! The DaemonSets that pods name as their controller, and that can be missing.
//!
//! A DaemonSet is read by its name, and the result is kept for a moment. All nodes share the same few
//! DaemonSets, so that a drain makes a few reads, and no watch is needed.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Mutex,
    time::Duration,
};

use futures::{StreamExt, stream};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::{Api, Client};
use tokio::time::{Instant, timeout};
use tracing::warn;

use crate::cluster::{call, lock};

/// Time for which a DaemonSet counts as there after it was read.
const THERE: Duration = Duration::from_secs(30);
/// Time for which a DaemonSet counts as missing after it was read, or as there when it could not be read.
/// Short, because pods are evicted or stay meanwhile.
const UNSURE: Duration = Duration::from_secs(5);
/// Maximum time of a read. All pods of a drain wait for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Number of reads under way at a time.
const AT_ONCE: usize = 8;

/// Reader of DaemonSets.
pub(super) struct DaemonSets {
    client: Client,
    known: Mutex<HashMap<String, Known>>,
}

/// Result of a read.
#[derive(Clone, Copy)]
struct Known {
    exists: bool,
    until: Instant,
}

impl DaemonSets {
    /// Returns a reader that knows nothing yet.
    pub(super) fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// Returns those of the DaemonSets, as `NAMESPACE/NAME`, that do not exist. One that cannot be read
    /// counts as there: then no pod is evicted for it, and the drain of all other pods goes on.
    pub(super) async fn missing(&self, names: BTreeSet<String>) -> BTreeSet<String> {
        let unknown: Vec<String> = {
            let mut known = lock(&self.known);
            known.retain(|_, known| Instant::now() < known.until);
            names.iter().filter(|name| !known.contains_key(*name)).cloned().collect()
        };
        stream::iter(unknown).for_each_concurrent(AT_ONCE, |key| self.read(key)).await;
        let known = lock(&self.known);
        names.into_iter().filter(|name| known.get(name).is_some_and(|known| !known.exists)).collect()
    }

    async fn read(&self, key: String) {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), namespace);
        let read = timeout(PATIENCE, call(format!("read daemonset {key}"), api.get_metadata_opt(name))).await;
        let (exists, kept) = match read {
            Ok(Ok(Some(_))) => (true, THERE),
            Ok(Ok(None)) => (false, UNSURE),
            Ok(Err(error)) => {
                warn!(error = &error as &dyn std::error::Error, "it counts as there");
                (true, UNSURE)
            }
            Err(_) => {
                warn!(daemon_set = key, "it was not read in time, and counts as there");
                (true, UNSURE)
            }
        };
        lock(&self.known).insert(key, Known { exists, until: Instant::now() + kept });
    }
}
