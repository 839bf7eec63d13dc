//! Namespaces of the cluster, from its kube-apiserver.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    core::PartialObjectMeta,
    runtime::{
        reflector::{ObjectRef, Store, store::Writer},
        watcher::Event,
    },
};
use machinery_watch::{Projected, Projection, Watch, follow};
use tokio_util::sync::CancellationToken;

use super::{NamespaceState, Namespaces};
use crate::{ApiError, Reason};

/// Maximum time of a single read.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Namespaces of the cluster, from a watch. A namespace that the watch has not reported is read.
///
/// RBAC: get, list and watch namespaces.
pub struct KubeNamespaces {
    api: Api<PartialObjectMeta<Namespace>>,
    known: Store<PartialObjectMeta<Namespace>>,
    started: Arc<AtomicBool>,
}

/// The metadata of a namespace without what no admission rule reads.
enum Unowned {}

impl Projection<PartialObjectMeta<Namespace>> for Unowned {
    fn project(namespace: &mut PartialObjectMeta<Namespace>) {
        namespace.metadata.managed_fields = None;
    }
}

impl KubeNamespaces {
    /// Starts the watch, which runs until `shutdown`. Returns at once. Until the watch has started,
    /// namespaces are read one by one.
    pub fn start(client: Client, shutdown: CancellationToken) -> Arc<Self> {
        let api: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
        let mut writer = Writer::<PartialObjectMeta<Namespace>>::default();
        let known = writer.as_reader();
        let started = Arc::new(AtomicBool::new(false));
        let watched = Api::<Projected<_, Unowned>>::all(client);
        let has_started = started.clone();
        tokio::spawn(async move {
            follow(watched, Watch::all("watch of namespaces"), shutdown, |event| {
                writer.apply_watcher_event(&event);
                if matches!(event, Event::InitDone) {
                    has_started.store(true, Ordering::Relaxed);
                }
            })
            .await;
        });
        Arc::new(Self { api, known, started })
    }
}

impl KubeNamespaces {
    /// Returns the metadata of a namespace; `None` when it does not exist. A namespace that was created a
    /// moment ago is found.
    pub async fn metadata(&self, name: &str) -> Result<Option<Arc<PartialObjectMeta<Namespace>>>, ApiError> {
        if let Some(known) = self.known.get(&ObjectRef::new(name)) {
            return Ok(Some(known));
        }
        // Created a moment ago, perhaps.
        let read = tokio::time::timeout(READ_TIMEOUT, self.api.get_opt(name)).await;
        match read {
            Ok(Ok(found)) => Ok(found.map(Arc::new)),
            Ok(Err(error)) => {
                tracing::warn!(namespace = name, %error, "namespace cannot be read");
                Err(unknown(name))
            }
            Err(_) => Err(unknown(name)),
        }
    }
}

#[async_trait]
impl Namespaces for KubeNamespaces {
    async fn state(&self, name: &str) -> Result<NamespaceState, ApiError> {
        Ok(self.metadata(name).await?.map_or(NamespaceState::Absent, |found| state_of(&found)))
    }

    fn has_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }
}

fn state_of(namespace: &PartialObjectMeta<Namespace>) -> NamespaceState {
    if namespace.metadata.deletion_timestamp.is_some() {
        NamespaceState::Terminating
    } else {
        NamespaceState::Active
    }
}

fn unknown(name: &str) -> ApiError {
    let message = format!("the state of namespace {name} cannot be found out now");
    ApiError::status(Reason::ServiceUnavailable, message).retry_after(1)
}
