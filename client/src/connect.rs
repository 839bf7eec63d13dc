//! The client of an app.

use kube::{Client, Config};
pub use machinery_client::ConnectError;

/// Returns a client with the kubeconfig, if there is one, or else as the pod's own service account.
///
/// The kubeconfig is the file that `KUBECONFIG` names, or `~/.kube/config`. In a pod there should be none:
/// the pod's own account answers for `self`.
///
/// It sends each request at once. kube's own client holds the first request on a new connection back by 40 ms
/// on Linux, and an answer is such a request: the watch for questions occupies the connection before.
///
/// The process gets `ring` as the default provider of `rustls`, unless it has one. An app that wants another
/// installs it before this call.
///
/// # Errors
///
/// There is neither a kubeconfig nor a service account, or it cannot be used.
pub async fn connect() -> Result<Client, ConnectError> {
    let config = Config::infer().await.map_err(|source| ConnectError::InCluster(Box::new(source)))?;
    machinery_client::client(config)
}
