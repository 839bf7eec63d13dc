//! Live reads of target pods.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

use crate::budgets::{BudgetReader, Budgets};

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

    /// Returns the budgets of a namespace, which can be a second old, for a request of that user.
    async fn budgets(&self, namespace: &str, user: &str) -> Budgets;
}

/// Reader of pods from the kube-apiserver.
pub struct KubePods {
    client: Client,
    budgets: BudgetReader,
}

impl KubePods {
    /// Returns a reader with that client, which needs `get pods` and `list poddisruptionbudgets`. Each of the
    /// priority users has a share of the reads of its own.
    pub fn new(client: Client, priority_users: &[String]) -> Self {
        Self { budgets: BudgetReader::new(client.clone(), priority_users), client }
    }
}

#[async_trait]
impl Pods for KubePods {
    async fn get(&self, namespace: &str, name: &str) -> Result<Option<Pod>, PodsError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let Ok(read) = tokio::time::timeout(TIMEOUT, pods.get_opt(name)).await else {
            return Err(PodsError::Timeout { namespace: namespace.to_owned(), name: name.to_owned() });
        };
        read.map_err(|source| PodsError::Read {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            source: Box::new(source),
        })
    }

    async fn budgets(&self, namespace: &str, user: &str) -> Budgets {
        self.budgets.budgets(namespace, user).await
    }
}
