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
use tokio::time::Instant;

use crate::cluster::{CallError, call, lock};

/// Time for which a DaemonSet counts as there after it was read.
const THERE: Duration = Duration::from_secs(30);
/// Time for which a DaemonSet counts as missing after it was read. Short, because pods are evicted meanwhile.
const MISSING: Duration = Duration::from_secs(5);
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

    /// Returns those of the DaemonSets, as `NAMESPACE/NAME`, that do not exist.
    ///
    /// # Errors
    ///
    /// A read failed. Whether that DaemonSet exists is not known then, and nothing may follow from it.
    pub(super) async fn missing(&self, names: BTreeSet<String>) -> Result<BTreeSet<String>, CallError> {
        let unknown: Vec<String> = {
            let mut known = lock(&self.known);
            known.retain(|_, known| Instant::now() < known.until);
            names.iter().filter(|name| !known.contains_key(*name)).cloned().collect()
        };
        let mut reads =
            std::pin::pin!(stream::iter(unknown).map(|key| self.read(key)).buffer_unordered(AT_ONCE));
        let mut failure = None;
        let mut missing = BTreeSet::new();
        while let Some(read) = reads.next().await {
            match read {
                Ok((_, true)) => {}
                Ok((key, false)) => {
                    missing.insert(key);
                }
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        let known = lock(&self.known);
        let absent = |name: &String| known.get(name).is_some_and(|known| !known.exists);
        missing.extend(names.into_iter().filter(absent));
        Ok(missing)
    }

    async fn read(&self, key: String) -> Result<(String, bool), CallError> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), namespace);
        let found = call(format!("read daemonset {key}"), api.get_metadata_opt(name)).await?;
        let exists = found.is_some();
        let until = Instant::now() + if exists { THERE } else { MISSING };
        lock(&self.known).insert(key.clone(), Known { exists, until });
        Ok((key, exists))
    }
}
