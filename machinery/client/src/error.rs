//! Reasons that there is no client.

use std::path::PathBuf;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Reason that there is no client for the kube-apiserver.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read or used.
    #[error("the kubeconfig {} cannot be used", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Problem of the file.
        #[source]
        source: Source,
    },
    /// There is no kubeconfig that can be used, and no service account.
    #[error("there is no kubeconfig that can be used, and the process is in no cluster")]
    InCluster(#[source] Source),
    /// The configuration leads to no client: its certificates, its token file or its proxy cannot be used.
    #[error("the client of the kube-apiserver cannot be made")]
    Client(#[source] Source),
}
