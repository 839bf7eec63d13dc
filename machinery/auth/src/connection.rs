//! Connection to the kube-apiserver.

use std::{error::Error, path::Path, time::Duration};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// Timeout for opening a connection to the kube-apiserver.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Reason that there is no client for the kube-apiserver.
#[derive(Debug, thiserror::Error)]
#[error("no kubeconfig and no service account for the kube-apiserver")]
pub struct ConnectError(#[source] Box<dyn Error + Send + Sync>);

/// Returns a client for the kube-apiserver: with that kubeconfig, else as the pod's own service account.
///
/// # Errors
///
/// The kubeconfig cannot be read or used, or the process is not in a pod.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    fn failed(error: impl Error + Send + Sync + 'static) -> ConnectError {
        ConnectError(Box::new(error))
    }
    let mut config = match kubeconfig {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(file).map_err(failed)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(failed)?
        }
        None => Config::incluster().map_err(failed)?,
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Client::try_from(config).map_err(failed)
}
