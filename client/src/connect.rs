//! The client of an app.

use kube::{Client, Config};
pub use machinery_client::ConnectError;

/// Returns a client as the pod's own service account, or outside a cluster with the kubeconfig.
///
/// It sends each request at once. kube's own client holds the first request on a new connection back by 40 ms
/// on Linux, and an answer is such a request: the watch for questions occupies the connection before.
///
/// # Errors
///
/// There is neither a kubeconfig nor a service account, or it cannot be used.
pub async fn connect() -> Result<Client, ConnectError> {
    let config = Config::infer().await.map_err(|source| ConnectError::InCluster(Box::new(source)))?;
    machinery_client::client(config)
}
