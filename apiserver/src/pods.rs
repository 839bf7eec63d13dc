//! Live reads of target pods.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

/// Timeout of the kube-apiserver for one pod.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Failure to read a pod.
#[derive(Debug, thiserror::Error)]
pub enum PodsError {
    /// The kube-apiserver did not answer in time.
    #[error("pod {namespace}/{name} was not read within {} s", TIMEOUT.as_secs())]
    Timeout {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        name: String,
    },
    /// The kube-apiserver is not reachable, or rejected the request.
    #[error("pod {namespace}/{name} could not be read")]
    Read {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        name: String,
        /// The client's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Reader of live pods. A cache would not do: another pod of the same name may have replaced the cached one.
#[async_trait]
pub trait Pods: Send + Sync + 'static {
    /// Returns the pod of that name, if there is one.
    async fn get(&self, namespace: &str, name: &str) -> Result<Option<Pod>, PodsError>;
}

/// Reader of pods from the kube-apiserver.
pub struct KubePods(Client);

impl KubePods {
    /// Returns a reader with that client, which needs `get pods`.
    pub fn new(client: Client) -> Self {
        Self(client)
    }
}

#[async_trait]
impl Pods for KubePods {
    async fn get(&self, namespace: &str, name: &str) -> Result<Option<Pod>, PodsError> {
        let pods: Api<Pod> = Api::namespaced(self.0.clone(), namespace);
        let Ok(read) = tokio::time::timeout(TIMEOUT, pods.get_opt(name)).await else {
            return Err(PodsError::Timeout { namespace: namespace.to_owned(), name: name.to_owned() });
        };
        read.map_err(|source| PodsError::Read {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            source: Box::new(source),
        })
    }
}
